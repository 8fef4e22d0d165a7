'use strict';

// What a Node program does with ali-ons; the protocol of a driver stands in tests/clients/driving.py.
//
// Each behaviour has topics and groups of its own, so they run at the same time; only the restart of the broker is left
// for the end.

const assert = require('node:assert/strict');
const crypto = require('node:crypto');
const readline = require('node:readline');
const { setTimeout: sleep } = require('node:timers/promises');
const httpclient = require('urllib');
const { Consumer, Message, Producer } = require('ali-ons');

const [ namesrv, strictNamesrv ] = process.argv.slice(2);
const PATIENCE_MS = 40_000;
const QUIET_MS = 1_500; // How long nothing more may arrive after everything did.
const SETTLE_MS = 300; // How long a client takes to note that the last message is consumed.
const silent = { debug() {}, info() {}, warn() {}, error() {} };
const input = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();

let producer;

// For this client an unknown topic is an error, before it could be created by a send.
const TOPICS = [
  'sync', 'async', 'properties', 'large', 'tags', 'once', 'retried', 'delayed', 'timers', 'ordered', 'broadcast', 'shared',
  'resumed', 'survivors',
];

async function main() {
  await ask({ create: TOPICS });
  producer = await newProducer(namesrv, 'driver-producers');
  const behaviours = {
    'send-sync': sendSync,
    'send-async': sendAsync,
    properties,
    tags,
    'once-each': onceEach,
    retry,
    delay,
    timers,
    ordered,
    broadcast,
    'share-queues': shareQueues,
    'consumer-restart': consumerRestart,
    'too-large': tooLarge,
    'no-auto-create': noAutoCreate,
  };
  cannot('send-oneway', 'the client has no one-way send');
  cannot('send-batch', 'the client has no batches');
  cannot('auto-create', 'the client gives up when a topic has no route yet');
  cannot('sql92', 'the client has tags only');
  cannot('recall', 'the client has no recall');
  cannot('trace', 'the client traces nothing');
  cannot('queries', 'the client has no queries');
  cannot('pull', 'the client has no pull consumer');
  cannot('transactions', 'the client has no transactions');
  cannot('request-reply', 'the client has no requests');
  cannot('lite-pull', 'the client has no lite pull consumer');
  await Promise.all(Object.entries(behaviours).map(([ name, behaviour ]) => tell(name, behaviour)));
  await tell('broker-restart', brokerRestart);
  process.exit(0); // The client's timers never end.
}

// -- sending ----------------------------------------------------------------------------------------------------------

async function sendSync() {
  const next = new Map();
  for (let number = 0; number < 8; number++) {
    const result = await producer.send(message('sync', number));
    assert.equal(result.sendStatus, 'SEND_OK');
    assert.equal(result.msgId.length, 32);
    assert.equal(result.messageQueue.topic, 'sync');
    const queue = Number(result.messageQueue.queueId);
    assert.equal(result.queueOffset, next.get(queue) || 0, 'queue offset');
    next.set(queue, result.queueOffset + 1);
  }
  return `${next.size} queues`;
}

async function sendAsync() {
  const sends = [];
  for (let number = 0; number < 20; number++) {
    sends.push(producer.send(message('async', number)));
  }
  const ids = new Set((await Promise.all(sends)).map(result => result.msgId + result.sendStatus));
  assert.equal(ids.size, 20);
}

async function properties() {
  const before = Date.now();
  const sent = new Message('properties', 'paid', 'body é');
  sent.keys = [ 'key-1', 'key-2' ];
  sent.properties.spaced = ' a  b ';
  sent.properties.umlaut = 'größe';
  sent.flag = 7;
  const result = await producer.send(sent);
  await listening('properties', {}, async listener => {
    await listener.await(1);
    const [ got ] = listener.received;
    assert.equal(got.body.toString(), 'body é');
    assert.equal(got.tags, 'paid');
    assert.equal(got.keys, 'key-1 key-2');
    assert.equal(got.properties.spaced, ' a  b ');
    assert.equal(got.properties.umlaut, 'größe');
    assert.equal(got.flag, 7);
    assert.equal(got.msgId, result.msgId);
    assert.equal(Number(got.queueOffset), result.queueOffset);
    assert.match(String(got.bornHost), /127\.0\.0\.1/);
    assert.match(String(got.storeHost), /127\.0\.0\.1/);
    assert.ok(Number(got.bornTimestamp) >= before, `born at ${got.bornTimestamp}`);
    assert.equal(got.reconsumeTimes, 0);
  });
}

async function tooLarge() {
  const body = crypto.randomBytes((4 << 20) + 1);
  await assert.rejects(producer.send(new Message('large', '', body)), error => {
    assert.equal(error.code, 13, `refused with: ${error}`);
    return true;
  });
  const result = await producer.send(message('large', 1));
  assert.equal(result.sendStatus, 'SEND_OK');
}

async function noAutoCreate() {
  const strict = await newProducer(strictNamesrv, 'strict-producers');
  try {
    await assert.rejects(strict.send(message('nobody-made-this', 1)));
  } finally {
    await strict.close();
  }
}

// -- consuming --------------------------------------------------------------------------------------------------------

async function tags() {
  for (let number = 0; number < 30; number++) {
    await producer.send(message('tags', number, [ 'TagA', 'TagB', 'TagC' ][number % 3]));
  }
  await listening('tags', { expression: 'TagA || TagB' }, async listener => {
    await listener.await(20);
    await sleep(QUIET_MS);
    assert.deepEqual(listener.numbers(), [ ...Array(30).keys() ].filter(number => number % 3 !== 2));
  });
}

async function onceEach() {
  await producer.send(message('once', 0));
  await listening('once', {}, async listener => {
    for (let number = 1; number < 200; number++) {
      await producer.send(message('once', number));
    }
    await listener.await(200);
    await sleep(QUIET_MS);
    assert.deepEqual(listener.numbers(), [ ...Array(200).keys() ]);
  });
}

async function retry() {
  await producer.send(message('retried', 1));
  return await listening('retried', { failOnce: true }, async listener => {
    await listener.await(2);
    const [ first, second ] = listener.received;
    assert.equal(first.reconsumeTimes, 0);
    assert.equal(second.reconsumeTimes, 1);
    assert.equal(second.properties.UNIQ_KEY, first.properties.UNIQ_KEY);
    assert.equal(second.topic, 'retried');
    // The retry topic is new; the client asks for its route when it starts, and for its queues every 10 s.
    return inWindow('first retry', second.at - first.at, 9_900, 21_000);
  });
}

async function delay() {
  await producer.send(message('delayed', 0));
  return await listening('delayed', {}, async listener => {
    await listener.await(1);
    const delayed = message('delayed', 1);
    delayed.delayTimeLevel = 2;
    const sent = Date.now();
    await producer.send(delayed);
    await listener.await(2);
    assert.equal(listener.received[1].topic, 'delayed');
    return inWindow('level 2', listener.received[1].at - sent, 4_900, 12_000);
  });
}

async function timers() {
  await producer.send(message('timers', 0));
  return await listening('timers', {}, async listener => {
    await listener.await(1);
    const timed = message('timers', 1);
    timed.properties.TIMER_DELAY_MS = '2750';
    const sent = Date.now();
    await producer.send(timed);
    await listener.await(2);
    assert.equal(listener.received[1].topic, 'timers');
    return inWindow('TIMER_DELAY_MS', listener.received[1].at - sent, 2_750, 10_000);
  });
}

async function ordered() {
  for (let number = 0; number < 100; number++) {
    await producer.send(message('ordered', number));
  }
  await listening('ordered', {}, async listener => {
    await listener.await(100);
    const next = new Map();
    for (const each of listener.received) {
      assert.equal(Number(each.queueOffset), next.get(each.queueId) || 0, 'queue offset');
      next.set(each.queueId, Number(each.queueOffset) + 1);
    }
  });
}

async function broadcast() {
  for (let number = 0; number < 10; number++) {
    await producer.send(message('broadcast', number));
  }
  const check = async listener => {
    await listener.await(10);
    assert.deepEqual(listener.numbers(), [ ...Array(10).keys() ]);
  };
  await Promise.all([ 'a', 'b' ].map(instance => listening('broadcast', { instance, isBroadcast: true }, check)));
}

// The client doesn't listen to notifications of the broker: it looks every 10 s who else is there.
async function shareQueues() {
  let sent = 0;
  const sendMore = async () => {
    for (let count = 0; count < 4; count++) {
      await producer.send(message('shared', sent++));
    }
  };
  await sendMore();
  const one = new Listener('shared', { instance: 'a' });
  let other; // It is a member of its group from its construction on.
  try {
    await one.start();
    await one.await(4);
    const began = Date.now();
    other = new Listener('shared', { instance: 'b' });
    await other.start();
    await until('both consume', async () => await sendMore() || other.queues(0) === 2);
    const joined = Date.now() - began;
    await other.close();
    const left = Date.now();
    const before = one.received.length;
    await until('one consumer has all queues', async () => await sendMore() || one.queues(before) === 4);
    const took = Date.now() - left;
    await until('all are consumed', () => new Set([ ...one.numbers(), ...other.numbers() ]).size === sent);
    return `${inWindow('join', joined, 0, 21_000)}, ${inWindow('leave', took, 0, 21_000)}`;
  } finally {
    await one.close();
    await other?.close();
  }
}

async function consumerRestart() {
  await consumeAndLeave('resumed');
  await resume('resumed', 21);
}

async function brokerRestart() {
  await consumeAndLeave('survivors');
  await ask({ restart: 'broker' });
  const began = Date.now();
  await until('the producer recovers', () => producer.send(message('survivors', 20)).then(() => true, () => false));
  const back = Date.now() - began;
  await resume('survivors', 20);
  return `sent again after ${back} ms`;
}

async function consumeAndLeave(topic) {
  for (let number = 0; number < 20; number++) {
    await producer.send(message(topic, number));
  }
  await listening(topic, { instance: 'a' }, async listener => {
    await listener.await(20);
    await sleep(SETTLE_MS);
  });
}

// Consume what was sent since the consumer left, from the number `first` on, and nothing twice.
async function resume(topic, first) {
  for (let number = 21; number < 25; number++) {
    await producer.send(message(topic, number));
  }
  await listening(topic, { instance: 'b' }, async listener => {
    await listener.await(25 - first);
    await sleep(QUIET_MS);
    assert.deepEqual(listener.numbers(), [ 20, 21, 22, 23, 24 ].filter(number => number >= first));
  });
}

// -- parts ------------------------------------------------------------------------------------------------------------

// A push consumer that keeps what it got.
class Listener {
  constructor(topic, { instance = 'a', expression = '*', failOnce = false, isBroadcast = false }) {
    this.topic = topic;
    this.expression = expression;
    this.failOnce = failOnce;
    this.received = [];
    this.consumer = new Consumer({
      httpclient,
      isBroadcast,
      logger: silent,
      nameSrv: namesrv,
      consumerGroup: `${topic}-readers`,
      instanceName: `${topic}-${instance}`,
      consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET',
    });
    this.consumer.on('error', () => {});
  }

  async start() {
    this.consumer.subscribe(this.topic, this.expression, async got => {
      // The client changes a message when it sends it back.
      this.received.push(Object.assign(Object.create(Object.getPrototypeOf(got)), got, {
        at: Date.now(), properties: { ...got.properties },
      }));
      return this.failOnce && got.reconsumeTimes === 0 ? Consumer.ACTION_RETRY : undefined;
    });
    await this.consumer.ready();
  }

  async await(count) {
    await until(() => `${count} messages of ${this.topic} (got ${this.received.length})`,
      () => this.received.length >= count);
  }

  numbers() {
    return this.received.map(each => Number(each.properties.number)).sort((one, other) => one - other);
  }

  queues(after) {
    return new Set(this.received.slice(after).map(each => each.queueId)).size;
  }

  async close() {
    if (!this.closed) {
      this.closed = true;
      await this.consumer.close();
    }
  }
}

async function listening(topic, options, use) {
  const listener = new Listener(topic, options);
  try {
    await listener.start();
    return await use(listener);
  } finally {
    await listener.close();
  }
}

async function newProducer(nameSrv, producerGroup) {
  const made = new Producer({ httpclient, nameSrv, producerGroup, instanceName: producerGroup, logger: silent });
  made.on('error', () => {});
  await made.ready();
  return made;
}

function message(topic, number, tag = '') {
  const made = new Message(topic, tag, `body ${number}`);
  made.properties.number = String(number);
  return made;
}

async function until(what, done) {
  const end = Date.now() + PATIENCE_MS;
  while (!await done()) {
    assert.ok(Date.now() < end, `waited ${PATIENCE_MS} ms in vain for: ${typeof what === 'string' ? what : what()}`);
    await sleep(20);
  }
}

function inWindow(what, tookMs, minMs, maxMs) {
  assert.ok(minMs <= tookMs && tookMs <= maxMs, `${what} after ${tookMs} ms, not ${minMs} to ${maxMs}`);
  return `${what} after ${tookMs} ms`;
}

async function tell(behaviour, run) {
  const began = Date.now();
  let ok = true;
  let detail;
  try {
    detail = await run() || '';
  } catch (error) {
    ok = false;
    detail = error.message;
  }
  console.log(JSON.stringify({ behaviour, ok, ms: Date.now() - began, detail }));
}

function cannot(behaviour, why) {
  console.log(JSON.stringify({ behaviour, cannot: why }));
}

async function ask(what) {
  console.log(JSON.stringify(what));
  await input.next();
}

main();
