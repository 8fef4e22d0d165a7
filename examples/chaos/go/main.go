// Three mistakes of the catalogue in Go, and the same programs without them.
//
//	go build -o shop . && staticfire chaos --each 'orders -> invoices by key' -- ./shop not_idempotent [--fixed]
//
// Also `swallowed` and `status_ignored`, with --weather rough.
package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

const orders, pace, wait = 30, 20 * time.Millisecond, 60 * time.Second

var (
	namesrv = os.Getenv("NAMESRV_ADDR")
	isFixed = len(os.Args) > 2 && os.Args[2] == "--fixed"
	lock    sync.Mutex
	seen    = map[string]bool{}
)

// sendSurely sends until a broker has confirmed it.
func sendSurely(shop rocketmq.Producer, message *primitive.Message) {
	for {
		if result, err := shop.SendSync(context.Background(), message); err == nil && result.Status == primitive.SendOK {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func named(topic string, key string) *primitive.Message {
	return primitive.NewMessage(topic, []byte("1 book")).WithKeys([]string{key})
}

// bill makes the invoice of an order.
func bill(mistake string, shop rocketmq.Producer, key string) consumer.ConsumeResult {
	lock.Lock()
	defer lock.Unlock()
	if seen[key] && (isFixed || mistake == "swallowed") {
		return consumer.ConsumeSuccess
	}
	if mistake == "swallowed" {
		if _, err := shop.SendSync(context.Background(), named("invoices", key)); err != nil {
			fmt.Println(key, "has no invoice:", err)
			if isFixed {
				return consumer.ConsumeRetryLater
			}
		}
	} else {
		sendSurely(shop, named("invoices", key))
	}
	seen[key] = true
	return consumer.ConsumeSuccess
}

func consume(mistake string, shop rocketmq.Producer) rocketmq.PushConsumer {
	billing, err := rocketmq.NewPushConsumer(
		consumer.WithNameServer([]string{namesrv}), consumer.WithGroupName("billing"),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
	check(err)
	check(billing.Subscribe("orders", consumer.MessageSelector{},
		func(ctx context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			if concurrently, ok := primitive.GetConcurrentlyCtx(ctx); ok {
				concurrently.DelayLevelWhenNextConsume = 1
			}
			for _, message := range messages {
				if result := bill(mistake, shop, message.GetKeys()); result != consumer.ConsumeSuccess {
					return result, nil
				}
			}
			return consumer.ConsumeSuccess, nil
		}))
	check(billing.Start())
	return billing
}

func main() {
	rlog.SetLogLevel("fatal")
	mistake := os.Args[1]
	shop, err := rocketmq.NewProducer(producer.WithNameServer([]string{namesrv}), producer.WithGroupName("shop"))
	check(err)
	check(shop.Start())
	for number := 0; number < orders; number++ {
		message := named("orders", fmt.Sprintf("order-%d", number))
		if mistake == "status_ignored" && !isFixed {
			_, _ = shop.SendSync(context.Background(), message)
		} else {
			sendSurely(shop, message)
		}
		time.Sleep(pace)
	}
	if mistake != "status_ignored" {
		billing := consume(mistake, shop)
		until := time.Now().Add(wait)
		for count() < orders && time.Now().Before(until) {
			time.Sleep(pace)
		}
		time.Sleep(300 * time.Millisecond)
		check(billing.Shutdown())
	}
	check(shop.Shutdown())
	if mistake != "status_ignored" && count() < orders {
		os.Exit(1)
	}
}

func count() int {
	lock.Lock()
	defer lock.Unlock()
	return len(seen)
}

func check(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}
