// Command access sends one message and receives it, with the keys and TLS of the environment; tests/clients/access.py
// says how it reports. TLS on or off: the client itself reads rocketmq.client.enableSsl.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"time"

	rmq "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"
)

func main() {
	topic, group := os.Args[2], os.Args[3]
	seconds, _ := strconv.Atoi(os.Args[4])
	rmq.EnableSsl = os.Getenv("DRIVER_TLS") == "true"
	say("sent", send(topic))
	say("received", receive(topic, group, time.Duration(seconds)*time.Second))
	os.Exit(0)
}

func config(group string) *rmq.Config {
	keys := &credentials.SessionCredentials{
		AccessKey: os.Getenv("ROCKETMQ_ACCESS_KEY"), AccessSecret: os.Getenv("ROCKETMQ_SECRET_KEY"),
	}
	return &rmq.Config{Endpoint: os.Args[1], ConsumerGroup: group, Credentials: keys}
}

func send(topic string) error {
	made, err := rmq.NewProducer(config(""), rmq.WithTopics(topic))
	if err != nil {
		return err
	}
	if err := made.Start(); err != nil {
		return err
	}
	_, err = made.Send(context.Background(), &rmq.Message{Topic: topic, Body: []byte("body")})
	return err
}

func receive(topic, group string, patience time.Duration) error {
	made, err := rmq.NewSimpleConsumer(config(group), rmq.WithSimpleAwaitDuration(5*time.Second),
		rmq.WithSimpleSubscriptionExpressions(map[string]*rmq.FilterExpression{topic: rmq.SUB_ALL}))
	if err != nil {
		return err
	}
	if err := made.Start(); err != nil {
		return err
	}
	last := fmt.Errorf("it starts, and gets nothing")
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		views, err := made.Receive(context.Background(), 1, 20*time.Second)
		if len(views) > 0 {
			return made.Ack(context.Background(), views[0])
		}
		if err != nil {
			last = err
		}
	}
	return last
}

func say(step string, err error) {
	told := map[string]any{"step": step, "ok": err == nil, "detail": ""}
	if err != nil {
		told["detail"] = err.Error()
	}
	text, _ := json.Marshal(told)
	fmt.Println(string(text))
}
