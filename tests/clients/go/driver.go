// Command driver does what a Go program does with rocketmq-client-go; the protocol of a driver stands in
// tests/clients/driving.py.
//
// Each behaviour has topics and groups of its own, so they run at the same time; only the restart of the broker is left
// for the end.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

const (
	patience = 40 * time.Second
	quiet    = 1500 * time.Millisecond // How long nothing more may arrive after everything did.
	settle   = 300 * time.Millisecond  // How long a client takes to note that the last message is consumed.
)

var (
	namesrv, strictNamesrv string
	shared                 rocketmq.Producer
	background             = context.Background()
	printing, asking       sync.Mutex
	input                  = bufio.NewReader(os.Stdin)
)

type behaviour struct {
	name string
	run  func() string
}

// failure is what check panics with: the only way out of a behaviour besides its end.
type failure string

func main() {
	namesrv, strictNamesrv = os.Args[1], os.Args[2]
	rlog.SetLogLevel("fatal")
	shared = newProducer(namesrv, "driver-producers")
	behaviours := []behaviour{
		{"send-sync", sendSync},
		{"send-async", sendAsync},
		{"send-oneway", sendOneway},
		{"send-batch", sendBatch},
		{"properties", properties},
		{"tags", tags},
		{"sql92", sql92},
		{"once-each", onceEach},
		{"retry", retry},
		{"delay", delay},
		{"timers", timers},
		{"trace", trace},
		{"ordered", ordered},
		{"broadcast", broadcast},
		{"share-queues", shareQueues},
		{"consumer-restart", consumerRestart},
		{"pull", pull},
		{"transactions", transactions},
		{"too-large", tooLarge},
		{"auto-create", autoCreate},
		{"no-auto-create", noAutoCreate},
	}
	var running sync.WaitGroup
	for _, each := range behaviours {
		running.Add(1)
		go func(each behaviour) {
			defer running.Done()
			tell(each)
		}(each)
	}
	running.Wait()
	cannot("recall", "the client has no recall")
	cannot("request-reply", "the client answers no requests")
	cannot("lite-pull", "the client has no lite pull consumer")
	cannot("queries", "the client has no queries")
	tell(behaviour{"broker-restart", brokerRestart})
}

// -- sending ----------------------------------------------------------------------------------------------------------

func sendSync() string {
	next := map[int]int64{}
	for number := 0; number < 8; number++ {
		result := send(shared, message("sync", number))
		check(result.Status == primitive.SendOK, "status %v", result.Status)
		check(result.MessageQueue.Topic == "sync", "topic %v", result.MessageQueue)
		check(result.MsgID != "" && len(result.OffsetMsgID) == 32, "ids %v", result)
		queue := result.MessageQueue.QueueId
		check(result.QueueOffset == next[queue], "queue offset %d, not %d", result.QueueOffset, next[queue])
		next[queue]++
	}
	return fmt.Sprintf("%d queues", len(next))
}

func sendAsync() string {
	answered := make(chan error, 20)
	for number := 0; number < 20; number++ {
		err := shared.SendAsync(background, func(_ context.Context, result *primitive.SendResult, err error) {
			if err == nil && result.Status != primitive.SendOK {
				err = fmt.Errorf("status %v", result.Status)
			}
			answered <- err
		}, message("async", number))
		must(err)
	}
	for number := 0; number < 20; number++ {
		select {
		case err := <-answered:
			must(err)
		case <-time.After(patience):
			check(false, "%d were never answered", 20-number)
		}
	}
	return ""
}

func sendOneway() string {
	send(shared, message("oneway", 0))
	for number := 1; number < 10; number++ {
		must(shared.SendOneWay(background, message("oneway", number)))
	}
	listening := listen("oneway-readers", "oneway", "*", "a")
	defer listening.close()
	listening.await(10)
	listening.sameNumbers(10)
	return ""
}

func sendBatch() string {
	batch := make([]*primitive.Message, 30)
	for number := range batch {
		batch[number] = message("batch", number)
	}
	result := send(shared, batch...)
	check(result.Status == primitive.SendOK, "status %v", result.Status)
	check(len(strings.Split(result.OffsetMsgID, ",")) == 30, "offset ids %s", result.OffsetMsgID)
	listening := listen("batch-readers", "batch", "*", "a")
	defer listening.close()
	listening.await(30)
	listening.sameNumbers(30)
	for _, each := range listening.got() {
		check(each.Queue.QueueId == result.MessageQueue.QueueId, "a batch is in several queues")
	}
	return ""
}

func properties() string {
	before := time.Now().UnixMilli()
	sent := primitive.NewMessage("properties", []byte("body é"))
	sent.WithTag("paid").WithKeys([]string{"key-1", "key-2"})
	sent.WithProperty("spaced", " a  b ")
	sent.WithProperty("umlaut", "größe")
	sent.Flag = 7
	result := send(shared, sent)
	listening := listen("properties-readers", "properties", "*", "a")
	defer listening.close()
	listening.await(1)
	got := listening.got()[0]
	check(string(got.Body) == "body é", "body %q", got.Body)
	check(got.GetTags() == "paid", "tags %q", got.GetTags())
	check(got.GetKeys() == "key-1 key-2", "keys %q", got.GetKeys())
	check(got.GetProperty("spaced") == " a  b ", "property %q", got.GetProperty("spaced"))
	check(got.GetProperty("umlaut") == "größe", "property %q", got.GetProperty("umlaut"))
	check(got.Flag == 7, "flag %d", got.Flag)
	check(got.MsgId == result.MsgID, "unique id %s, not %s", got.MsgId, result.MsgID)
	check(got.OffsetMsgId == result.OffsetMsgID, "offset id %s, not %s", got.OffsetMsgId, result.OffsetMsgID)
	check(got.QueueOffset == result.QueueOffset, "queue offset %d, not %d", got.QueueOffset, result.QueueOffset)
	check(strings.HasPrefix(got.BornHost, "127.0.0.1:"), "born host %s", got.BornHost)
	check(strings.HasPrefix(got.StoreHost, "127.0.0.1:"), "store host %s", got.StoreHost)
	check(got.BornTimestamp >= before, "born at %d", got.BornTimestamp)
	check(got.ReconsumeTimes == 0, "reconsume times %d", got.ReconsumeTimes)
	return ""
}

func tooLarge() string {
	body := make([]byte, 4<<20+1)
	rand.New(rand.NewSource(1)).Read(body)
	_, err := shared.SendSync(background, primitive.NewMessage("large", body))
	check(err != nil, "a message of 4 MiB and one byte was stored")
	check(strings.Contains(err.Error(), "CODE: 13"), "refused with: %v", err)
	check(send(shared, message("large", 1)).Status == primitive.SendOK, "the next message isn't stored")
	return ""
}

func autoCreate() string {
	queues := map[int]bool{}
	for number := 0; number < 16; number++ {
		queues[send(shared, message("created-unasked", number)).MessageQueue.QueueId] = true
	}
	check(len(queues) == 4, "%d queues, not 4", len(queues)) // Of the producer's defaultTopicQueueNums.
	return ""
}

func noAutoCreate() string {
	strict := newProducer(strictNamesrv, "strict-producers")
	defer strict.Shutdown()
	_, err := strict.SendSync(background, message("nobody-made-this", 1))
	check(err != nil, "a message for an unknown topic was stored")
	check(strings.Contains(err.Error(), "route info not found"), "refused with: %v", err)
	return ""
}

// -- consuming --------------------------------------------------------------------------------------------------------

func tags() string {
	names := []string{"TagA", "TagB", "TagC"}
	for number := 0; number < 30; number++ {
		send(shared, message("tags", number).WithTag(names[number%3]))
	}
	listening := listen("tags-readers", "tags", "TagA || TagB", "a")
	defer listening.close()
	listening.await(20)
	time.Sleep(quiet)
	check(len(listening.got()) == 20, "%d messages, not 20", len(listening.got()))
	for _, each := range listening.got() {
		check(numberOf(each)%3 != 2, "message %d has %s", numberOf(each), each.GetTags())
	}
	return ""
}

func sql92() string {
	for number := 0; number < 30; number++ {
		made := message("chosen", number)
		made.WithProperty("parity", []string{"even", "odd"}[number%2])
		send(shared, made)
	}
	listening := newListening("chosen-readers", "chosen", "number >= 10 AND parity IN ('even')", "a")
	listening.kind = consumer.SQL92
	listening.start()
	defer listening.close()
	listening.await(10)
	time.Sleep(quiet)
	check(len(listening.got()) == 10, "%d messages, not 10", len(listening.got()))
	for _, each := range listening.got() {
		check(numberOf(each) >= 10 && numberOf(each)%2 == 0, "message %d", numberOf(each))
	}
	return ""
}

func onceEach() string {
	send(shared, message("once", 0))
	listening := listen("once-readers", "once", "*", "a")
	defer listening.close()
	for number := 1; number < 200; number++ {
		send(shared, message("once", number))
	}
	listening.await(200)
	time.Sleep(quiet)
	listening.sameNumbers(200)
	return ""
}

func retry() string {
	send(shared, message("retried", 1))
	listening := newListening("retried-readers", "retried", "*", "a")
	listening.failOnce = true
	listening.start()
	defer listening.close()
	listening.await(2)
	first, second := listening.got()[0], listening.got()[1]
	check(first.ReconsumeTimes == 0, "reconsume times of the first: %d", first.ReconsumeTimes)
	check(second.ReconsumeTimes == 1, "reconsume times of the second: %d", second.ReconsumeTimes)
	check(first.MsgId == second.MsgId, "unique ids %s, %s", first.MsgId, second.MsgId)
	check(second.Topic == "retried", "topic %s", second.Topic)
	return window("first retry", listening.times[1].Sub(listening.times[0]), 9900, 25_000)
}

func delay() string {
	send(shared, message("delayed", 0))
	listening := listen("delayed-readers", "delayed", "*", "a")
	defer listening.close()
	listening.await(1)
	sent := time.Now()
	send(shared, message("delayed", 1).WithDelayTimeLevel(2))
	listening.await(2)
	check(listening.got()[1].Topic == "delayed", "topic %s", listening.got()[1].Topic)
	return window("level 2", listening.times[1].Sub(sent), 4900, 12_000)
}

func timers() string {
	send(shared, message("timers", 0))
	listening := listen("timers-readers", "timers", "*", "a")
	defer listening.close()
	listening.await(1)
	// Far enough from each other that a send of a busy machine doesn't change their order.
	sent := time.Now()
	for number, each := range [][2]string{
		{"TIMER_DELAY_SEC", "2"}, {"TIMER_DELAY_MS", "7750"},
		{"TIMER_DELIVER_MS", strconv.FormatInt(sent.UnixMilli()+13_500, 10)},
	} {
		timed := message("timers", number+1)
		timed.WithProperty(each[0], each[1])
		send(shared, timed)
	}
	listening.await(4)
	listening.sameNumbers(4)
	for number, each := range listening.got() {
		check(numberOf(each) == number, "message %d came as number %d", numberOf(each), number)
	}
	window("TIMER_DELAY_MS", listening.times[2].Sub(sent), 7750, 15_000)
	window("TIMER_DELIVER_MS", listening.times[3].Sub(sent), 13_500, 20_000)
	return window("TIMER_DELAY_SEC", listening.times[1].Sub(sent), 2000, 10_000)
}

func trace() string {
	config := &primitive.TraceConfig{
		GroupName: "traced", Access: primitive.Local,
		Resolver: primitive.NewPassthroughResolver([]string{namesrv}),
	}
	traced := newProducer(namesrv, "traced-producers", producer.WithTrace(config))
	defer traced.Shutdown()
	sent := send(traced, message("traced", 0))
	listening := newListening("traced-readers", "traced", "*", "a", consumer.WithTrace(config))
	listening.start()
	defer listening.close()
	listening.await(1)
	wanted := []string{"sent/trace", "stored/store", "delivered/journal", "consumed/trace"}
	life := ""
	await("the traces of a message", func() bool {
		life = ask(map[string]any{"life": sent.MsgID})
		for _, each := range wanted {
			if !strings.Contains(" "+life+" ", " "+each+" ") {
				return false
			}
		}
		return true
	})
	return life
}

func ordered() string {
	selecting := newProducer(namesrv, "ordered-producers", producer.WithQueueSelector(producer.NewHashQueueSelector()))
	defer selecting.Shutdown()
	for number := 0; number < 100; number++ {
		send(selecting, message("ordered", number).WithShardingKey(strconv.Itoa(number%8)))
	}
	listening := newListening("ordered-readers", "ordered", "*", "a", consumer.WithConsumerOrder(true))
	listening.start()
	defer listening.close()
	listening.await(100)
	time.Sleep(quiet)
	listening.sameNumbers(100)
	last := map[int]int64{}
	for _, each := range listening.got() {
		queue := each.Queue.QueueId
		check(each.QueueOffset == last[queue], "queue %d: offset %d, not %d", queue, each.QueueOffset, last[queue])
		last[queue]++
	}
	return fmt.Sprintf("%d queues", len(last))
}

func broadcast() string {
	for number := 0; number < 10; number++ {
		send(shared, message("broadcast", number))
	}
	both := make([]*listening, 2)
	for index, instance := range []string{"a", "b"} {
		both[index] = newListening("broadcast-readers", "broadcast", "*", instance,
			consumer.WithConsumerModel(consumer.BroadCasting))
		both[index].start()
		defer both[index].close()
	}
	for _, each := range both {
		each.await(10)
		each.sameNumbers(10)
	}
	return ""
}

// The client doesn't tell which queues it has, so messages are sent until it shows.
func shareQueues() string {
	sent := 0
	sendMore := func() {
		for count := 0; count < 4; count++ {
			send(shared, message("shared", sent))
			sent++
		}
		time.Sleep(50 * time.Millisecond)
	}
	sendMore()
	one := listen("shared-readers", "shared", "*", "a")
	defer one.close()
	one.await(4)
	began := time.Now()
	other := listen("shared-readers", "shared", "*", "b")
	await("both consume", func() bool {
		sendMore()
		return len(other.queues(0)) == 2
	})
	joined := time.Since(began)
	began = time.Now()
	other.close()
	before := len(one.got())
	await("one consumer has all queues", func() bool {
		sendMore()
		return len(one.queues(before)) == 4
	})
	left := time.Since(began)
	await("all are consumed", func() bool {
		numbers := map[int]bool{}
		for _, each := range append(one.got(), other.got()...) {
			numbers[numberOf(each)] = true
		}
		return len(numbers) == sent
	})
	return window("join", joined, 0, 12_000) + ", " + window("leave", left, 0, 12_000)
}

func consumerRestart() string {
	consumeAndLeave("resumed", "resumed-readers")
	resume("resumed", "resumed-readers", 21)
	return ""
}

func brokerRestart() string {
	consumeAndLeave("survivors", "survivors-readers")
	ask(map[string]any{"restart": "broker"})
	began := time.Now()
	await("the producer recovers", func() bool {
		_, err := shared.SendSync(background, message("survivors", 20))
		return err == nil
	})
	back := time.Since(began)
	resume("survivors", "survivors-readers", 20)
	return fmt.Sprintf("sent again after %d ms", back.Milliseconds())
}

func consumeAndLeave(topic, group string) {
	for number := 0; number < 20; number++ {
		send(shared, message(topic, number))
	}
	listening := listen(group, topic, "*", "a")
	defer listening.close()
	listening.await(20)
	time.Sleep(settle)
}

// resume consumes what was sent since the consumer left, from the number `first` on, and nothing twice.
func resume(topic, group string, first int) {
	for number := 21; number < 25; number++ {
		send(shared, message(topic, number))
	}
	listening := listen(group, topic, "*", "b")
	defer listening.close()
	listening.await(25 - first)
	time.Sleep(quiet)
	for _, each := range listening.got() {
		check(numberOf(each) >= first, "message %d came again", numberOf(each))
	}
	check(len(listening.got()) == 25-first, "%d messages, not %d", len(listening.got()), 25-first)
}

func pull() string {
	queues := map[int]*primitive.MessageQueue{}
	for number := 0; number < 40; number++ {
		queue := send(shared, message("pulled", number)).MessageQueue
		queues[queue.QueueId] = queue
	}
	puller, err := rocketmq.NewPullConsumer(consumer.WithGroupName("pulled-readers"), consumer.WithInstance("pull"),
		consumer.WithNsResolver(primitive.NewPassthroughResolver([]string{namesrv})))
	must(err)
	must(puller.Subscribe("pulled", consumer.MessageSelector{}))
	must(puller.Start())
	defer puller.Shutdown()
	numbers := map[int]bool{}
	for _, queue := range queues {
		first, err := puller.PullFrom(background, queue, 0, 4)
		must(err)
		check(first.Status == primitive.PullFound, "status %v", first.Status)
		check(len(first.GetMessageExts()) == 4, "first pull: %d messages", len(first.GetMessageExts()))
		check(first.NextBeginOffset == 4, "next offset %d", first.NextBeginOffset)
		check(first.MinOffset == 0 && first.MaxOffset == 10, "offsets %d to %d", first.MinOffset, first.MaxOffset)
		rest, err := puller.PullFrom(background, queue, 4, 32)
		must(err)
		check(len(rest.GetMessageExts()) == 6, "second pull: %d messages", len(rest.GetMessageExts()))
		beyond, err := puller.PullFrom(background, queue, 110, 32)
		must(err)
		check(beyond.Status == primitive.PullOffsetIllegal, "behind the end: %v", beyond.Status)
		for _, each := range append(first.GetMessageExts(), rest.GetMessageExts()...) {
			numbers[numberOf(each)] = true
		}
	}
	check(len(numbers) == 40, "%d messages, not 40", len(numbers))
	return ""
}

// -- parts ------------------------------------------------------------------------------------------------------------

// listening is a push consumer that keeps what it got.
type listening struct {
	topic, expression string
	kind              consumer.ExpressionType
	consumer          rocketmq.PushConsumer
	failOnce          bool
	lock              sync.Mutex
	received          []*primitive.MessageExt
	times             []time.Time
	closing           sync.Once
}

func newListening(group, topic, expression, instance string, options ...consumer.Option) *listening {
	options = append(options, consumer.WithGroupName(group), consumer.WithInstance(group+"-"+instance),
		consumer.WithNsResolver(primitive.NewPassthroughResolver([]string{namesrv})),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
	made, err := rocketmq.NewPushConsumer(options...)
	must(err)
	return &listening{topic: topic, expression: expression, kind: consumer.TAG, consumer: made}
}

func listen(group, topic, expression, instance string) *listening {
	made := newListening(group, topic, expression, instance)
	made.start()
	return made
}

func (l *listening) start() {
	selector := consumer.MessageSelector{Type: l.kind, Expression: l.expression}
	must(l.consumer.Subscribe(l.topic, selector, l.keep))
	must(l.consumer.Start())
}

func (l *listening) keep(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
	l.lock.Lock()
	defer l.lock.Unlock()
	for _, each := range messages {
		l.received = append(l.received, each)
		l.times = append(l.times, time.Now())
	}
	if l.failOnce && messages[0].ReconsumeTimes == 0 {
		return consumer.ConsumeRetryLater, nil
	}
	return consumer.ConsumeSuccess, nil
}

func (l *listening) got() []*primitive.MessageExt {
	l.lock.Lock()
	defer l.lock.Unlock()
	return append([]*primitive.MessageExt{}, l.received...)
}

// queues returns from which queues messages came, after the first few.
func (l *listening) queues(after int) map[int]bool {
	queues := map[int]bool{}
	for _, each := range l.got()[after:] {
		queues[each.Queue.QueueId] = true
	}
	return queues
}

func (l *listening) await(count int) {
	await(fmt.Sprintf("%d messages of %s", count, l.topic), func() bool { return len(l.got()) >= count })
}

func (l *listening) sameNumbers(count int) {
	numbers := []int{}
	for _, each := range l.got() {
		numbers = append(numbers, numberOf(each))
	}
	sort.Ints(numbers)
	check(len(numbers) == count, "%d messages, not %d: %v", len(numbers), count, numbers)
	for index, number := range numbers {
		check(index == number, "numbers %v", numbers)
	}
}

func (l *listening) close() {
	l.closing.Do(func() { _ = l.consumer.Shutdown() })
}

// transacting ends a transaction as the message's property says, and when asked commits what is paid.
type transacting struct {
	lock  sync.Mutex
	asked []string
}

func (t *transacting) ExecuteLocalTransaction(half *primitive.Message) primitive.LocalTransactionState {
	switch half.GetProperty("end") {
	case "commit":
		return primitive.CommitMessageState
	case "rollback":
		return primitive.RollbackMessageState
	}
	return primitive.UnknowState
}

func (t *transacting) CheckLocalTransaction(half *primitive.MessageExt) primitive.LocalTransactionState {
	t.lock.Lock()
	defer t.lock.Unlock()
	t.asked = append(t.asked, string(half.Body))
	if half.GetTags() == "paid" {
		return primitive.CommitMessageState
	}
	return primitive.RollbackMessageState
}

func transactions() string {
	send(shared, message("transactions", 0)) // The topic: a half message creates none for this client.
	ends := &transacting{}
	made, err := rocketmq.NewTransactionProducer(ends, producer.WithGroupName("transacting-producers"),
		producer.WithInstanceName("transacting"),
		producer.WithNsResolver(primitive.NewPassthroughResolver([]string{namesrv})))
	must(err)
	must(made.Start())
	defer made.Shutdown()
	listening := listen("transactions-readers", "transactions", "*", "a")
	defer listening.close()
	for number, each := range [][2]string{
		{"commit", "paid"}, {"commit", "paid"}, {"unknown", "paid"}, {"rollback", "refused"}, {"unknown", "refused"},
	} {
		half := message("transactions", number+1).WithTag(each[1])
		half.WithProperty("end", each[0])
		result, err := made.SendMessageInTransaction(background, half)
		must(err)
		check(result.Status == primitive.SendOK, "status %v", result.Status)
	}
	listening.await(4) // The last one after about six seconds.
	listening.sameNumbers(4)
	ends.lock.Lock()
	defer ends.lock.Unlock()
	return fmt.Sprintf("asked about %d", len(ends.asked))
}

func newProducer(namesrv, group string, options ...producer.Option) rocketmq.Producer {
	options = append(options, producer.WithGroupName(group), producer.WithInstanceName(group),
		producer.WithNsResolver(primitive.NewPassthroughResolver([]string{namesrv})))
	made, err := rocketmq.NewProducer(options...)
	must(err)
	must(made.Start())
	return made
}

func send(through rocketmq.Producer, messages ...*primitive.Message) *primitive.SendResult {
	result, err := through.SendSync(background, messages...)
	must(err)
	return result
}

func message(topic string, number int) *primitive.Message {
	made := primitive.NewMessage(topic, []byte(fmt.Sprintf("body %d", number)))
	made.WithProperty("number", strconv.Itoa(number))
	return made
}

func numberOf(message *primitive.MessageExt) int {
	number, err := strconv.Atoi(message.GetProperty("number"))
	must(err)
	return number
}

func await(what string, done func() bool) {
	for end := time.Now().Add(patience); !done(); time.Sleep(10 * time.Millisecond) {
		check(time.Now().Before(end), "waited %v in vain for: %s", patience, what)
	}
}

func check(fact bool, otherwise string, arguments ...any) {
	if !fact {
		panic(failure(fmt.Sprintf(otherwise, arguments...)))
	}
}

func must(err error) {
	if err != nil {
		panic(failure(err.Error()))
	}
}

func window(what string, took time.Duration, minMs, maxMs int64) string {
	ms := took.Milliseconds()
	check(minMs <= ms && ms <= maxMs, "%s after %d ms, not %d to %d", what, ms, minMs, maxMs)
	return fmt.Sprintf("%s after %d ms", what, ms)
}

func tell(each behaviour) {
	began := time.Now()
	line := map[string]any{"behaviour": each.name}
	defer func() {
		line["ms"] = time.Since(began).Milliseconds()
		if wrong := recover(); wrong != nil {
			line["ok"], line["detail"] = false, fmt.Sprint(wrong)
		}
		printLine(line)
	}()
	line["detail"] = each.run()
	line["ok"] = true
}

// ask writes what the driver wants done and returns the answer.
func ask(what map[string]any) string {
	asking.Lock()
	defer asking.Unlock()
	printLine(what)
	answer, err := input.ReadString('\n')
	must(err)
	return strings.TrimSpace(answer)
}

func cannot(name, why string) {
	printLine(map[string]any{"behaviour": name, "cannot": why})
}

func printLine(line map[string]any) {
	written, err := json.Marshal(line)
	must(err)
	printing.Lock()
	defer printing.Unlock()
	fmt.Println(string(written))
}
