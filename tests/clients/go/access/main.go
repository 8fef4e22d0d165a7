// Command access sends one message and consumes it, with the keys of the environment; tests/clients/access.py says how
// it reports.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

func main() {
	topic, group := os.Args[2], os.Args[3]
	seconds, _ := strconv.Atoi(os.Args[4])
	rlog.SetLogLevel("fatal")
	keys := primitive.Credentials{AccessKey: os.Getenv("ROCKETMQ_ACCESS_KEY"), SecretKey: os.Getenv("ROCKETMQ_SECRET_KEY")}
	resolver := primitive.NewPassthroughResolver([]string{os.Args[1]})
	say("sent", send(topic, group, keys, resolver))
	say("received", receive(topic, group, keys, resolver, time.Duration(seconds)*time.Second))
}

func send(topic, group string, keys primitive.Credentials, resolver primitive.NsResolver) error {
	options := []producer.Option{producer.WithGroupName(group + "-producers"), producer.WithInstanceName(group + "-p"),
		producer.WithNsResolver(resolver), producer.WithRetry(2)}
	if keys.AccessKey != "" {
		options = append(options, producer.WithCredentials(keys))
	}
	made, err := rocketmq.NewProducer(options...)
	if err != nil {
		return err
	}
	if err := made.Start(); err != nil {
		return err
	}
	result, err := made.SendSync(context.Background(), primitive.NewMessage(topic, []byte("body")))
	if err == nil && result.Status != primitive.SendOK {
		err = fmt.Errorf("status %v", result.Status)
	}
	return err
}

func receive(topic, group string, keys primitive.Credentials, resolver primitive.NsResolver, patience time.Duration) error {
	options := []consumer.Option{consumer.WithGroupName(group), consumer.WithInstance(group + "-c"),
		consumer.WithNsResolver(resolver), consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset)}
	if keys.AccessKey != "" {
		options = append(options, consumer.WithCredentials(keys))
	}
	made, err := rocketmq.NewPushConsumer(options...)
	if err != nil {
		return err
	}
	got := make(chan bool, 16)
	keep := func(context.Context, ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		got <- true
		return consumer.ConsumeSuccess, nil
	}
	if err := made.Subscribe(topic, consumer.MessageSelector{}, keep); err != nil {
		return err
	}
	if err := made.Start(); err != nil {
		return err
	}
	select {
	case <-got:
		return nil
	case <-time.After(patience):
		return fmt.Errorf("it starts, and gets nothing")
	}
}

func say(step string, err error) {
	told := map[string]any{"step": step, "ok": err == nil, "detail": ""}
	if err != nil {
		told["detail"] = err.Error()
	}
	text, _ := json.Marshal(told)
	fmt.Println(string(text))
}
