'use strict';
// The tests of an order desk: staticfire run -- npm test

const assert = require('node:assert/strict');
const { execFileSync } = require('node:child_process');
const { after, before, test } = require('node:test');
const { Producer, SimpleConsumer } = require('rocketmq-client-nodejs');

const endpoints = process.env.ROCKETMQ_ENDPOINT;
assert(endpoints, 'no cluster: staticfire run -- npm test');
const silent = { debug() {}, info() {}, warn() {}, error: console.error };
const common = { endpoints, namespace: '', logger: silent };

let producer, desk;

/** What the control endpoint does: '/clock/advance?by=2h', '/reset'. */
async function control(path) {
  const answer = await fetch(process.env.STATICFIRE_CONTROL + path, { method: 'POST' });
  assert.equal(answer.status, 200, await answer.text());
}

function staticfire(...words) {
  return execFileSync('staticfire', words, { encoding: 'utf8' });
}

before(async () => {
  staticfire('mqadmin', 'updateTopic', '-c', 'DefaultCluster', '-t', 'orders');
  producer = new Producer(common);
  await producer.startup();
  desk = new SimpleConsumer({
    ...common, consumerGroup: 'billing', subscriptions: new Map([[ 'orders', '*' ]]), awaitDuration: 5000,
  });
  await desk.startup();
});

after(async () => {
  await desk.shutdown();
  await producer.shutdown();
});

test('an order is billed', async () => {
  await producer.send({ topic: 'orders', body: Buffer.from('12.50') });
  const [ order ] = await desk.receive(1);
  assert.equal(order.body.toString(), '12.50');
  await desk.ack(order);
});

test('an order that nobody has billed comes again', async () => {
  await producer.send({ topic: 'orders', body: Buffer.from('no credit') });
  const [ order ] = await desk.receive(1, 60_000);
  assert.equal(order.deliveryAttempt, 1);
  await control('/clock/advance?by=61s'); // its invisible time is over
  const [ again ] = await desk.receive(1);
  assert.deepEqual([ again.messageId, again.deliveryAttempt ], [ order.messageId, 2 ]);
  await desk.ack(again);
});
