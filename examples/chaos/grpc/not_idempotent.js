'use strict';

// Mistake, in a gRPC client: each delivery makes an invoice. With `--fixed`, it remembers the keys of finished orders.
//
// It needs `npm install rocketmq-client-nodejs`.
//
//     staticfire chaos --topic orders --topic invoices --each 'orders -> invoices by key' -- node not_idempotent.js

const { setTimeout: sleep } = require('node:timers/promises');
const { ConsumeResult, FilterExpression, Producer, PushConsumer } = require('rocketmq-client-nodejs');

const ORDERS = 20, PACE_MS = 20, WAIT_MS = 60_000, QUIET_MS = 500, START_MS = 2_000;
const isFixed = process.argv.includes('--fixed');
const silent = { debug() {}, info() {}, warn() {}, error() {} };
const options = { endpoints: process.env.ROCKETMQ_ENDPOINT, namespace: '', logger: silent };
const begun = new Set(), done = new Set();

async function main() {
  const producer = await started(() => new Producer({ ...options, topics: [ 'orders', 'invoices' ] }));
  await started(() => new PushConsumer({
    ...options,
    consumerGroup: 'billing',
    subscriptions: new Map([[ 'orders', new FilterExpression('*') ]]),
    messageListener: { consume: message => bill(producer, message.keys[0]) },
  }));
  for (let number = 0; number < ORDERS; number++) {
    await sendSurely(producer, 'orders', `order-${number}`);
    await sleep(PACE_MS);
  }
  const until = Date.now() + WAIT_MS;
  while (done.size < ORDERS && Date.now() < until) await sleep(PACE_MS);
  await sleep(QUIET_MS);
  process.exit(done.size === ORDERS ? 0 : 1); // The client's timers never end.
}

// Client 1.0.8 waits without end if the endpoint's settings arrive earlier than it expects them. Then start a new one.
async function started(newClient) {
  for (;;) {
    const client = newClient();
    if (await Promise.race([ client.startup().then(() => true), sleep(START_MS) ])) return client;
  }
}

async function bill(producer, key) {
  if (!isFixed || !begun.has(key)) {
    begun.add(key);
    await sendSurely(producer, 'invoices', key);
    done.add(key);
  }
  return ConsumeResult.SUCCESS;
}

// Send the same message again until it is stored.
async function sendSurely(producer, topic, key) {
  const message = { topic, keys: [ key ], body: Buffer.from('please pay') };
  for (;;) {
    try {
      return await producer.send(message);
    } catch {
      await sleep(PACE_MS);
    }
  }
}

main();
