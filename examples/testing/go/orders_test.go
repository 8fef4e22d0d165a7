// The tests of an order desk: staticfire run -- go test ./...
package orders

import (
	"context"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

var namesrv = os.Getenv("NAMESRV_ADDR")

func TestMain(m *testing.M) {
	if namesrv == "" {
		println("no cluster: staticfire run -- go test ./...")
		os.Exit(2)
	}
	rlog.SetLogLevel("error")
	os.Exit(m.Run())
}

// control asks the control endpoint: "/clock/advance?by=2h", "/reset".
func control(t *testing.T, path string) {
	t.Helper()
	answer, err := http.Post(os.Getenv("STATICFIRE_CONTROL")+path, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", path, answer.Status)
	}
}

// billed opens a desk that bills orders; those without credit not at the first try.
func billed(t *testing.T) <-chan *primitive.MessageExt {
	t.Helper()
	bills := make(chan *primitive.MessageExt, 100)
	desk, err := rocketmq.NewPushConsumer(
		consumer.WithNameServer([]string{namesrv}), consumer.WithGroupName("billing"),
		consumer.WithInstance(t.Name()), consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
	if err != nil {
		t.Fatal(err)
	}
	bill := func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, message := range messages {
			if string(message.Body) == "no credit" && message.ReconsumeTimes == 0 {
				return consumer.ConsumeRetryLater, nil
			}
			bills <- message
		}
		return consumer.ConsumeSuccess, nil
	}
	if err := desk.Subscribe("orders", consumer.MessageSelector{}, bill); err != nil {
		t.Fatal(err)
	}
	if err := desk.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { desk.Shutdown() })
	return bills
}

func send(t *testing.T, message *primitive.Message) {
	t.Helper()
	shop, err := rocketmq.NewProducer(producer.WithNameServer([]string{namesrv}), producer.WithInstanceName(t.Name()))
	if err != nil {
		t.Fatal(err)
	}
	if err := shop.Start(); err != nil {
		t.Fatal(err)
	}
	defer shop.Shutdown()
	if _, err := shop.SendSync(context.Background(), message); err != nil {
		t.Fatal(err)
	}
}

func next(t *testing.T, bills <-chan *primitive.MessageExt) *primitive.MessageExt {
	t.Helper()
	select {
	case bill := <-bills:
		return bill
	case <-time.After(20 * time.Second):
		t.Fatal("nothing was billed; staticfire explain billing says why")
		return nil
	}
}

func TestAnOrderIsBilled(t *testing.T) {
	control(t, "/reset")
	send(t, primitive.NewMessage("orders", []byte("12.50")))
	if bill := next(t, billed(t)); string(bill.Body) != "12.50" {
		t.Fatalf("billed %q", bill.Body)
	}
}

func TestAnOrderThatIsDueInTwoHoursIsBilledThen(t *testing.T) {
	control(t, "/reset")
	send(t, primitive.NewMessage("orders", []byte("12.50")).WithDelayTimeLevel(18)) // two hours
	bills := billed(t)
	control(t, "/clock/advance?by=119m")
	if len(bills) > 0 {
		t.Fatal("a minute too early")
	}
	control(t, "/clock/advance?by=1m")
	next(t, bills)
}
