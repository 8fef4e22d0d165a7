// What a Go program does with rocketmq-clients/golang/v5, TLS as it comes; the protocol of a driver stands in
// tests/clients/driving.py.
//
// Each behaviour has topics and groups of its own, so they run at the same time; only the restart of the broker is left
// for the end.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"sort"
	"strconv"
	"sync"
	"time"

	rmq "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"
)

const patience = 40 * time.Second

var (
	endpoint = os.Args[1]
	input    = bufio.NewReader(os.Stdin)
	output   sync.Mutex
	producer rmq.Producer
	topics   = map[string][]string{
		"NORMAL": {"send", "properties", "receive", "change", "tags", "sql92", "push", "retry", "share", "dead-letter",
			"large", "types", "restart"},
		"FIFO":        {"fifo"},
		"DELAY":       {"delay", "recall"},
		"TRANSACTION": {"transaction", "orphan"},
	}
)

type words map[string]any

func main() {
	var all []string
	for kind, names := range topics {
		ask(words{"create": names, "kind": kind})
		all = append(all, names...)
	}
	ask(words{"groups": words{"g-fifo": words{"consume_message_orderly": true}, "g-dead-letter": words{"retry_max_times": 1}}})
	checker := &rmq.TransactionChecker{Check: func(*rmq.MessageView) rmq.TransactionResolution { return rmq.COMMIT }}
	var err error
	producer, err = rmq.NewProducer(config(""), rmq.WithTopics(all...), rmq.WithTransactionChecker(checker),
		rmq.WithClientFunc(patient))
	must(err)
	must(producer.Start())
	behaviours := map[string]func() string{
		"send": send, "properties": properties, "receive": receive, "change": change, "tags": tags, "sql92": sql92,
		"push": push, "retry": retry, "share": share, "fifo": fifo, "delay": delay, "recall": recall,
		"transaction": transaction, "orphan": orphan, "dead-letter": deadLetter, "types": types,
	}
	say(words{"behaviour": "large", "cannot": "the client sends up to 2 MB in a call"})
	var running sync.WaitGroup
	for name, behaviour := range behaviours {
		running.Add(1)
		go func() {
			defer running.Done()
			tell(name, behaviour)
		}()
	}
	running.Wait()
	tell("restart", restart)
}

// -- behaviours -------------------------------------------------------------------------------------------------------

func send() string {
	var offsets []int
	ids := map[string]bool{}
	for number := 0; number < 8; number++ {
		receipt := sent(message("send", number))
		offsets = append(offsets, int(receipt.Offset))
		ids[receipt.MessageID] = true
	}
	sort.Ints(offsets)
	same(offsets, []int{0, 0, 0, 0, 1, 1, 1, 1}, "queue offsets")
	same(len(ids), 8, "ids")
	done := make(chan error, 1)
	producer.SendAsync(context.Background(), message("send", 8), func(_ context.Context, _ []*rmq.SendReceipt, err error) {
		done <- err
	})
	must(<-done)
	return ""
}

func properties() string {
	each := message("properties", 1)
	each.SetTag("paid")
	each.SetKeys("key-1", "key-2")
	each.AddProperty("umlaut", "größe")
	each.Body = []byte("body é")
	receipt := sent(each)
	got := simple("properties", rmq.SUB_ALL, "").take(1)[0]
	same(string(got.GetBody()), "body é", "body")
	same(*got.GetTag(), "paid", "tag")
	same(got.GetKeys(), []string{"key-1", "key-2"}, "keys")
	same(got.GetProperties()["umlaut"], "größe", "property")
	same(got.GetMessageId(), receipt.MessageID, "id")
	same(got.GetDeliveryAttempt(), int32(1), "attempt")
	return ""
}

func receive() string {
	sendNumbers("receive", 20)
	consumer := simple("receive", rmq.SUB_ALL, "")
	same(numbers(consumer.take(20)), numberRange(20), "messages")
	same(len(consumer.receive(1<<30, 12*time.Second, true)), 0, "messages after all were acknowledged")
	return ""
}

func change() string {
	sendNumbers("change", 1)
	consumer := simple("change", rmq.SUB_ALL, "")
	first := consumer.receive(1, patience, false)[0]
	began := time.Now()
	must(consumer.consumer.ChangeInvisibleDuration(first, 2*time.Second))
	second := consumer.take(1)[0]
	same([]int32{first.GetDeliveryAttempt(), second.GetDeliveryAttempt()}, []int32{1, 2}, "attempts")
	same(second.GetMessageId(), first.GetMessageId(), "id")
	return window("again", time.Since(began), 1500, 12_000)
}

func tags() string {
	return filtered("tags", rmq.NewFilterExpression("TagA || TagB"), func(number int) bool { return number%3 != 2 })
}

func sql92() string {
	condition := rmq.NewFilterExpressionWithType("number >= 10 AND parity IN ('even')", rmq.SQL92)
	return filtered("sql92", condition, func(number int) bool { return number >= 10 && number%2 == 0 })
}

func filtered(topic string, expression *rmq.FilterExpression, wanted func(int) bool) string {
	var expected []int
	for number := 0; number < 30; number++ {
		each := message(topic, number)
		each.SetTag([]string{"TagA", "TagB", "TagC"}[number%3])
		each.AddProperty("parity", []string{"even", "odd"}[number%2])
		sent(each)
		if wanted(number) {
			expected = append(expected, number)
		}
	}
	consumer := simple(topic, expression, "")
	got := consumer.take(len(expected))
	got = append(got, consumer.receive(1<<30, 6*time.Second, true)...)
	same(numbers(got), expected, "messages")
	return ""
}

func push() string {
	listener := pushed("push", 0)
	sendNumbers("push", 200)
	listener.await(200)
	time.Sleep(2 * time.Second)
	same(numbers(listener.all()), numberRange(200), "messages")
	return ""
}

func retry() string {
	sendNumbers("retry", 1)
	listener := pushed("retry", 1)
	listener.await(2)
	got := listener.all()
	same([]int32{got[0].GetDeliveryAttempt(), got[1].GetDeliveryAttempt()}, []int32{1, 2}, "attempts")
	same(got[1].GetTopic(), "retry", "topic")
	return window("first retry", listener.at[1].Sub(listener.at[0]), 900, 12_000)
}

func share() string {
	one, other := pushed("share", 0), pushed("share", 0)
	time.Sleep(3 * time.Second)
	sendNumbers("share", 300)
	until("300 messages", func() bool { return len(one.all())+len(other.all()) >= 300 })
	time.Sleep(2 * time.Second)
	same(numbers(append(one.all(), other.all()...)), numberRange(300), "messages")
	check(len(one.all()) > 0 && len(other.all()) > 0, "one of the consumers got everything")
	return fmt.Sprintf("%d and %d", len(one.all()), len(other.all()))
}

func fifo() string {
	for number := 0; number < 30; number++ {
		each := message("fifo", number)
		each.SetMessageGroup(fmt.Sprintf("group-%d", number%2))
		sent(each)
	}
	listener := pushed("fifo", 0)
	listener.await(30)
	next := []int{0, 1}
	for _, each := range listener.all() {
		number := numberOf(each)
		same(number, next[number%2], *each.GetMessageGroup())
		next[number%2] += 2
	}
	return ""
}

func delay() string {
	due := time.Now().Add(4 * time.Second)
	each := message("delay", 1)
	each.SetDelayTimestamp(due)
	sent(each)
	simple("delay", rmq.SUB_ALL, "").take(1)
	return window("delivered", time.Since(due), -100, 10_000)
}

func recall() string {
	var handles []string
	for number := 0; number < 2; number++ {
		each := message("recall", number)
		each.SetDelayTimestamp(time.Now().Add(15 * time.Second))
		handles = append(handles, sent(each).RecallHandle)
	}
	_, err := producer.Recall(context.Background(), "recall", handles[0])
	must(err)
	consumer := simple("recall", rmq.SUB_ALL, "")
	same(numbers(consumer.take(1)), []int{1}, "messages")
	same(len(consumer.receive(1<<30, 6*time.Second, true)), 0, "further messages")
	return ""
}

func transaction() string {
	for number := 0; number < 4; number++ {
		half := producer.BeginTransaction()
		_, err := producer.SendWithTransaction(context.Background(), message("transaction", number), half)
		must(err)
		if number%2 == 1 {
			must(half.Commit())
		} else {
			must(half.RollBack())
		}
	}
	consumer := simple("transaction", rmq.SUB_ALL, "")
	got := append(consumer.take(2), consumer.receive(1<<30, 6*time.Second, true)...)
	same(numbers(got), []int{1, 3}, "messages")
	return ""
}

func orphan() string {
	began := time.Now()
	_, err := producer.SendWithTransaction(context.Background(), message("orphan", 1), producer.BeginTransaction())
	must(err)
	same(numbers(simple("orphan", rmq.SUB_ALL, "").take(1)), []int{1}, "messages")
	return window("asked and committed", time.Since(began), 5000, 45_000)
}

func deadLetter() string {
	sendNumbers("dead-letter", 1)
	listener := pushed("dead-letter", 9)
	listener.await(2)
	time.Sleep(7 * time.Second) // The third receive finds that it was given too often.
	same(len(listener.all()), 2, "attempts")
	same(numbers(simple("%DLQ%g-dead-letter", rmq.SUB_ALL, "g-buried").take(1)), []int{0}, "dead letters")
	return ""
}

func types() string {
	each := message("types", 1)
	each.SetMessageGroup("g")
	_, err := producer.Send(context.Background(), each)
	check(err != nil, "a topic of type NORMAL took an ordered message")
	return ""
}

func restart() string {
	sendNumbers("restart", 10)
	consumer := simple("restart", rmq.SUB_ALL, "")
	same(numbers(consumer.take(10)), numberRange(10), "messages before")
	ask(words{"restart": "broker"})
	until("a send after the restart", func() bool {
		_, err := producer.Send(context.Background(), message("restart", 10))
		return err == nil
	})
	same(numbers(consumer.take(1)), []int{10}, "messages after")
	return ""
}

// -- clients ----------------------------------------------------------------------------------------------------------

type simpleConsumer struct{ consumer rmq.SimpleConsumer }

func simple(topic string, expression *rmq.FilterExpression, group string) simpleConsumer {
	if group == "" {
		group = "g-" + topic
	}
	consumer, err := rmq.NewSimpleConsumer(config(group), rmq.WithSimpleAwaitDuration(5*time.Second),
		rmq.WithSimpleSubscriptionExpressions(map[string]*rmq.FilterExpression{topic: expression}),
		rmq.WithClientFuncForSimpleConsumer(patient))
	must(err)
	must(consumer.Start())
	return simpleConsumer{consumer}
}

func (c simpleConsumer) take(count int) []*rmq.MessageView {
	got := c.receive(count, patience, true)
	check(len(got) >= count, fmt.Sprintf("%d of %d messages", len(got), count))
	return got
}

func (c simpleConsumer) receive(count int, within time.Duration, ack bool) []*rmq.MessageView {
	var got []*rmq.MessageView
	for deadline := time.Now().Add(within); len(got) < count && time.Now().Before(deadline); {
		views, err := c.consumer.Receive(context.Background(), 32, 20*time.Second)
		if err != nil { // Nothing there, or the broker is being restarted.
			time.Sleep(200 * time.Millisecond)
			continue
		}
		for _, view := range views {
			if ack {
				must(c.consumer.Ack(context.Background(), view))
			}
			got = append(got, view)
		}
	}
	return got
}

type listener struct {
	guard sync.Mutex
	got   []*rmq.MessageView
	at    []time.Time
}

func pushed(topic string, fails int) *listener {
	heard := &listener{}
	consume := func(view *rmq.MessageView) rmq.ConsumerResult {
		heard.guard.Lock()
		defer heard.guard.Unlock()
		heard.got = append(heard.got, view)
		heard.at = append(heard.at, time.Now())
		if len(heard.got) <= fails {
			return rmq.FAILURE
		}
		return rmq.SUCCESS
	}
	consumer, err := rmq.NewPushConsumer(config("g-"+topic), rmq.WithPushAwaitDuration(5*time.Second),
		rmq.WithPushSubscriptionExpressions(map[string]*rmq.FilterExpression{topic: rmq.SUB_ALL}),
		rmq.WithPushMessageListener(&rmq.FuncMessageListener{Consume: consume}),
		rmq.WithPushConsumptionThreadCount(4), rmq.WithPushMaxCacheMessageCount(1024))
	must(err)
	must(consumer.Start())
	return heard
}

func (l *listener) all() []*rmq.MessageView {
	l.guard.Lock()
	defer l.guard.Unlock()
	return append([]*rmq.MessageView{}, l.got...)
}

func (l *listener) await(count int) {
	until(fmt.Sprintf("%d messages", count), func() bool { return len(l.all()) >= count })
}

func config(group string) *rmq.Config {
	keys := &credentials.SessionCredentials{
		AccessKey: os.Getenv("ROCKETMQ_ACCESS_KEY"), AccessSecret: os.Getenv("ROCKETMQ_SECRET_KEY"),
	}
	return &rmq.Config{Endpoint: endpoint, ConsumerGroup: group, Credentials: keys}
}

// patient makes a client that waits longer than 3 s for its first route: a busy machine needs that, and time isn't tested.
func patient(config *rmq.Config, options ...rmq.ClientOption) (rmq.Client, error) {
	return rmq.NewClient(config, append(options, rmq.WithQueryRouteTimeout(patience))...)
}

func message(topic string, number int) *rmq.Message {
	made := &rmq.Message{Topic: topic, Body: []byte(strconv.Itoa(number))}
	made.AddProperty("number", strconv.Itoa(number))
	return made
}

func sent(each *rmq.Message) *rmq.SendReceipt {
	receipts, err := producer.Send(context.Background(), each)
	must(err)
	return receipts[0]
}

func sendNumbers(topic string, count int) {
	for number := 0; number < count; number++ {
		sent(message(topic, number))
	}
}

func numberOf(view *rmq.MessageView) int {
	number, err := strconv.Atoi(view.GetProperties()["number"])
	must(err)
	return number
}

func numbers(views []*rmq.MessageView) []int {
	var got []int
	for _, view := range views {
		got = append(got, numberOf(view))
	}
	sort.Ints(got)
	return got
}

func numberRange(end int) []int {
	var all []int
	for number := 0; number < end; number++ {
		all = append(all, number)
	}
	return all
}

// -- telling ----------------------------------------------------------------------------------------------------------

func tell(name string, behaviour func() string) {
	began := time.Now()
	told := words{"behaviour": name, "ok": true}
	func() {
		defer func() {
			if failed := recover(); failed != nil {
				told["ok"], told["detail"] = false, fmt.Sprint(failed)
			}
		}()
		told["detail"] = behaviour()
	}()
	told["ms"] = time.Since(began).Milliseconds()
	say(told)
}

func say(told words) {
	var line bytes.Buffer
	must(json.NewEncoder(&line).Encode(told))
	output.Lock()
	defer output.Unlock()
	os.Stdout.Write(line.Bytes())
}

func ask(told words) {
	say(told)
	_, err := input.ReadString('\n')
	must(err)
}

func until(what string, condition func() bool) {
	for deadline := time.Now().Add(patience); !condition(); time.Sleep(50 * time.Millisecond) {
		check(time.Now().Before(deadline), what+" didn't come")
	}
}

func window(what string, took time.Duration, least, most int64) string {
	told := fmt.Sprintf("%s after %d ms", what, took.Milliseconds())
	check(took.Milliseconds() >= least && took.Milliseconds() <= most, told)
	return told
}

func same(got, wanted any, what string) {
	check(reflect.DeepEqual(got, wanted), fmt.Sprintf("%s: %v, not %v", what, got, wanted))
}

func check(holds bool, told string) {
	if !holds {
		panic(told)
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
