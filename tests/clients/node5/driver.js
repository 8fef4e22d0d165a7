'use strict';

// What a Node program does with rocketmq-client-nodejs; the protocol of a driver stands in tests/clients/driving.py.
//
// Each behaviour has topics and groups of its own, so they run at the same time; only the restart of the broker is left
// for the end.

const assert = require('node:assert/strict');
const readline = require('node:readline');
const { setTimeout: sleep } = require('node:timers/promises');
const { ConsumeResult, FilterExpression, Producer, PushConsumer, SimpleConsumer } = require('rocketmq-client-nodejs');
const { FilterType, TransactionResolution } = require('rocketmq-client-nodejs/proto/apache/rocketmq/v2/definition_pb');

const endpoints = process.argv[2];
const { ROCKETMQ_ACCESS_KEY: accessKey, ROCKETMQ_SECRET_KEY: accessSecret } = process.env;
const sessionCredentials = accessKey ? { accessKey, accessSecret } : undefined;
const PATIENCE_MS = 90_000;
const requestTimeout = 10_000; // By default 3 s, in which a proxy on a busy machine doesn't respond.
const silent = { debug() {}, info() {}, warn() {}, error() {} };
const input = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const TOPICS = {
  NORMAL: [
    'send', 'properties', 'receive', 'change', 'tags', 'sql92', 'push', 'retry', 'share', 'dead-letter', 'large',
    'types', 'restart',
  ],
  FIFO: [ 'fifo' ],
  DELAY: [ 'delay', 'recall' ],
  TRANSACTION: [ 'transaction', 'orphan' ],
};

let producer;

async function main() {
  for (const [ kind, create ] of Object.entries(TOPICS)) await ask({ create, kind });
  await ask({ groups: { 'g-fifo': { consume_message_orderly: true }, 'g-dead-letter': { retry_max_times: 1 } } });
  producer = await newProducer();
  const behaviours = {
    send, properties, receive, change, tags, sql92, push, retry, share, fifo, delay, recall, transaction, orphan, types,
    'dead-letter': deadLetter, large,
  };
  await Promise.all(Object.entries(behaviours).map(([ name, behaviour ]) => tell(name, behaviour)));
  await tell('restart', restart);
  process.exit(0); // The client's timers never end.
}

// -- behaviours -------------------------------------------------------------------------------------------------------

async function send() {
  const receipts = [];
  for (let number = 0; number < 8; number++) receipts.push(await producer.send(message('send', number)));
  assert.deepEqual(receipts.map(each => Number(each.offset)).sort(), [ 0, 0, 0, 0, 1, 1, 1, 1 ]);
  assert.equal(new Set(receipts.map(each => each.messageId)).size, 8);
}

async function properties() {
  const properties = new Map([[ 'umlaut', 'größe' ]]);
  const body = Buffer.from('body é');
  const receipt = await producer.send({ topic: 'properties', tag: 'paid', keys: [ 'key-1', 'key-2' ], properties, body });
  const [ got ] = await (await simple('properties')).take(1);
  assert.equal(got.body.toString(), 'body é');
  assert.deepEqual([ got.tag, got.keys, got.messageId ], [ 'paid', [ 'key-1', 'key-2' ], receipt.messageId ]);
  assert.deepEqual([ got.properties.get('umlaut'), got.deliveryAttempt ], [ 'größe', 1 ]);
}

async function receive() {
  await sendNumbers('receive', 20);
  const consumer = await simple('receive');
  assert.deepEqual(numbers(await consumer.take(20)), range(20));
  assert.deepEqual(await consumer.takeFor(12_000), []);
}

async function change() {
  await sendNumbers('change', 1);
  const consumer = await simple('change');
  const [ first ] = await consumer.take(1, false);
  const began = Date.now();
  await consumer.consumer.changeInvisibleDuration(first, 2_000);
  const [ second ] = await consumer.take(1);
  assert.deepEqual([ first.deliveryAttempt, second.deliveryAttempt ], [ 1, 2 ]);
  assert.equal(second.messageId, first.messageId);
  return within('again', Date.now() - began, 1_500, 12_000);
}

const tags = () => filtered('tags', 'TagA || TagB', number => number % 3 !== 2);

const sql92 = () => filtered(
  'sql92',
  new FilterExpression("number >= 10 AND parity IN ('even')", FilterType.SQL),
  number => number >= 10 && number % 2 === 0);

async function filtered(topic, expression, wanted) {
  for (const number of range(30)) {
    const sent = message(topic, number);
    sent.tag = [ 'TagA', 'TagB', 'TagC' ][number % 3];
    sent.properties.set('parity', number % 2 ? 'odd' : 'even');
    await producer.send(sent);
  }
  const expected = range(30).filter(wanted);
  const consumer = await simple(topic, expression);
  const got = await consumer.take(expected.length);
  assert.deepEqual(numbers([ ...got, ...await consumer.takeFor(6_000) ]), expected);
}

async function push() {
  const { got } = await pushed('push');
  await sendNumbers('push', 200);
  await until('200 messages', () => got.length >= 200);
  await sleep(2_000);
  assert.deepEqual(numbers(got), range(200));
}

async function retry() {
  await sendNumbers('retry', 1);
  const { got, at } = await pushed('retry', 1);
  await until('a second attempt', () => got.length >= 2);
  assert.deepEqual(got.map(each => each.deliveryAttempt), [ 1, 2 ]);
  assert.equal(got[1].topic, 'retry');
  // The client doesn't know pauses of a table, which is what groups have: it asks for the message at once.
  return within('first retry', at[1] - at[0], 0, 12_000);
}

async function share() {
  const members = [ await pushed('share'), await pushed('share') ];
  await sleep(3_000);
  await sendNumbers('share', 300);
  const all = () => members.flatMap(member => member.got);
  await until('300 messages', () => all().length >= 300);
  await sleep(2_000);
  assert.deepEqual(numbers(all()), range(300));
  const shares = members.map(member => member.got.length);
  assert.ok(Math.min(...shares) > 0, `shares ${shares}`);
  return shares.join(' and ');
}

async function fifo() {
  for (const number of range(30)) {
    await producer.send({ ...message('fifo', number), messageGroup: `group-${number % 2}` });
  }
  const { got } = await pushed('fifo');
  await until('30 messages', () => got.length >= 30);
  for (const group of [ 0, 1 ]) {
    const mine = got.filter(each => each.messageGroup === `group-${group}`);
    assert.deepEqual(mine.map(numberOf), range(30).filter(number => number % 2 === group));
  }
}

async function delay() {
  const due = Date.now() + 4_000;
  await producer.send({ ...message('delay', 1), deliveryTimestamp: new Date(due) });
  await (await simple('delay')).take(1);
  return within('delivered', Date.now() - due, -100, 10_000);
}

async function recall() {
  const handles = [];
  for (const number of [ 0, 1 ]) {
    const deliveryTimestamp = new Date(Date.now() + 15_000);
    handles.push((await producer.send({ ...message('recall', number), deliveryTimestamp })).recallHandle);
  }
  await producer.recallMessage('recall', handles[0]);
  const consumer = await simple('recall');
  assert.deepEqual(numbers(await consumer.take(1)), [ 1 ]);
  assert.deepEqual(await consumer.takeFor(6_000), []);
}

async function transaction() {
  for (const number of range(4)) {
    const half = producer.beginTransaction();
    await producer.send(message('transaction', number), half);
    await (number % 2 ? half.commit() : half.rollback());
  }
  const consumer = await simple('transaction');
  const got = await consumer.take(2);
  assert.deepEqual(numbers([ ...got, ...await consumer.takeFor(6_000) ]), [ 1, 3 ]);
}

async function orphan() {
  const asked = await newProducer('orphan');
  const began = Date.now();
  await asked.send(message('orphan', 1), asked.beginTransaction());
  assert.deepEqual(numbers(await (await simple('orphan')).take(1)), [ 1 ]);
  return within('asked and committed', Date.now() - began, 5_000, 45_000);
}

async function deadLetter() {
  await sendNumbers('dead-letter', 1);
  const { got } = await pushed('dead-letter', 9);
  await until('two attempts', () => got.length >= 2);
  await sleep(7_000); // The third receive finds that it was given too often.
  assert.deepEqual(got.map(each => each.deliveryAttempt), [ 1, 2 ]);
  assert.deepEqual(numbers(await (await simple('%DLQ%g-dead-letter', '*', 'g-buried')).take(1)), [ 0 ]);
}

async function types() {
  await assert.rejects(producer.send({ ...message('types', 1), messageGroup: 'g' }));
}

async function large() {
  const body = Buffer.alloc(4_096_000, 'abcdefgh');
  await producer.send({ ...message('large', 1), body });
  const [ got ] = await (await simple('large')).take(1);
  assert.ok(got.body.equals(body));
}

async function restart() {
  await sendNumbers('restart', 10);
  const consumer = await simple('restart');
  assert.deepEqual(numbers(await consumer.take(10)), range(10));
  await ask({ restart: 'broker' });
  await until('a send after the restart', () => producer.send(message('restart', 10)).catch(() => false));
  assert.deepEqual(numbers(await consumer.take(1)), [ 10 ]);
}

// -- clients ----------------------------------------------------------------------------------------------------------

// Of one topic at most: with more, the client overhears the answer to its settings while it asks for the next route, and
// waits for it without end, whoever the server is.
async function newProducer(topic) {
  const checker = { check: async () => TransactionResolution.COMMIT };
  const made = new Producer({ endpoints, sessionCredentials, namespace: '', requestTimeout, topic, checker, logger: silent });
  await made.startup();
  return made;
}

async function simple(topic, expression = '*', consumerGroup = `g-${topic}`) {
  const subscriptions = new Map([[ topic, expression ]]);
  const options = { endpoints, sessionCredentials, namespace: '', requestTimeout, consumerGroup, subscriptions, awaitDuration: 5_000, logger: silent };
  const consumer = new SimpleConsumer(options);
  await consumer.startup();

  async function received(count, withinMs, ack) {
    const got = [];
    const deadline = Date.now() + withinMs;
    while (got.length < count && Date.now() < deadline) {
      try {
        for (const each of await consumer.receive(32, 20_000)) {
          if (ack) await consumer.ack(each);
          got.push(each);
        }
      } catch {
        await sleep(500); // Nothing there, or the broker is being restarted.
      }
    }
    return got;
  }

  async function take(count, ack = true) {
    const got = await received(count, PATIENCE_MS, ack);
    assert.ok(got.length >= count, `${got.length} of ${count} messages`);
    return got;
  }

  return { consumer, take, takeFor: withinMs => received(Infinity, withinMs, true) };
}

async function pushed(topic, fails = 0) {
  const got = [];
  const at = [];
  const messageListener = {
    async consume(view) {
      at.push(Date.now());
      return got.push(view) <= fails ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
    },
  };
  const subscriptions = new Map([[ topic, '*' ]]);
  const consumerGroup = `g-${topic}`;
  const consumer = new PushConsumer({
    endpoints, sessionCredentials, namespace: '', requestTimeout, consumerGroup, subscriptions, messageListener, logger: silent,
  });
  await consumer.startup();
  return { got, at };
}

function message(topic, number) {
  return { topic, body: Buffer.from(`${number}`), properties: new Map([[ 'number', `${number}` ]]) };
}

async function sendNumbers(topic, count) {
  for (const number of range(count)) await producer.send(message(topic, number));
}

const range = count => [ ...Array(count).keys() ];
const numberOf = view => Number(view.properties.get('number'));
const numbers = views => views.map(numberOf).sort((one, other) => one - other);

// -- telling ----------------------------------------------------------------------------------------------------------

async function tell(behaviour, run) {
  const began = Date.now();
  let ok = true;
  let detail;
  try {
    detail = await run() || '';
  } catch (error) {
    ok = false;
    detail = error.stack;
  }
  say({ behaviour, ok, ms: Date.now() - began, detail });
}

function say(words) {
  process.stdout.write(`${JSON.stringify(words)}\n`);
}

async function ask(words) {
  say(words);
  await input.next();
}

async function until(what, condition) {
  const deadline = Date.now() + PATIENCE_MS;
  while (!await condition()) {
    assert.ok(Date.now() < deadline, `${what} didn't come`);
    await sleep(50);
  }
}

function within(what, ms, least, most) {
  const words = `${what} after ${ms} ms`;
  assert.ok(ms >= least && ms <= most, words);
  return words;
}

process.on('unhandledRejection', () => {}); // The client leaves some behind when a broker goes.
main();
