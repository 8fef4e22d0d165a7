// Mistake, in a gRPC client: each delivery makes an invoice. With --fixed, it remembers the keys of finished orders.
//
//	go build -o shop . && staticfire chaos --topic orders --topic invoices --each 'orders -> invoices by key' -- ./shop
package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	rmq "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"
)

const (
	orders, batch         = 20, 8
	pace, wait, quiet     = 20 * time.Millisecond, 60 * time.Second, 500 * time.Millisecond
	await, invisible, ask = 5 * time.Second, 10 * time.Second, 3 * time.Second
)

var (
	isFixed = len(os.Args) > 1 && os.Args[1] == "--fixed"
	lock    sync.Mutex
	done    = map[string]bool{}
)

func main() {
	producer, err := rmq.NewProducer(config(""), rmq.WithTopics("orders", "invoices"))
	must(err)
	must(producer.Start())
	billing, err := rmq.NewSimpleConsumer(config("billing"), rmq.WithSimpleAwaitDuration(await),
		rmq.WithSimpleSubscriptionExpressions(map[string]*rmq.FilterExpression{"orders": rmq.SUB_ALL}))
	must(err)
	must(billing.Start())
	go receive(billing, producer)
	for number := 0; number < orders; number++ {
		sendSurely(producer, "orders", fmt.Sprintf("order-%d", number))
		time.Sleep(pace)
	}
	for until := time.Now().Add(wait); count() < orders && time.Now().Before(until); {
		time.Sleep(pace)
	}
	time.Sleep(quiet)
	if count() < orders {
		os.Exit(1)
	}
}

func receive(billing rmq.SimpleConsumer, producer rmq.Producer) {
	for {
		messages, err := billing.Receive(context.Background(), batch, invisible)
		if err != nil {
			time.Sleep(pace) // There was no message, or an error of the network.
			continue
		}
		for _, message := range messages {
			bill(producer, message.GetKeys()[0])
			_ = billing.Ack(context.Background(), message) // After an error it is delivered again.
		}
	}
}

func bill(producer rmq.Producer, key string) {
	lock.Lock()
	isDone := done[key]
	lock.Unlock()
	if isFixed && isDone {
		return
	}
	sendSurely(producer, "invoices", key)
	lock.Lock()
	done[key] = true
	lock.Unlock()
}

// sendSurely sends the same message again until it is stored.
func sendSurely(producer rmq.Producer, topic string, key string) {
	message := &rmq.Message{Topic: topic, Body: []byte("please pay")}
	message.SetKeys(key)
	for {
		within, cancel := context.WithTimeout(context.Background(), ask)
		_, err := producer.Send(within, message)
		cancel()
		if err == nil {
			return
		}
		time.Sleep(pace)
	}
}

func count() int {
	lock.Lock()
	defer lock.Unlock()
	return len(done)
}

func config(group string) *rmq.Config {
	return &rmq.Config{
		Endpoint: os.Getenv("ROCKETMQ_ENDPOINT"), ConsumerGroup: group, Credentials: &credentials.SessionCredentials{},
	}
}

func must(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}
