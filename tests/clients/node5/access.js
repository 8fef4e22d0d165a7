'use strict';

// Sends one message and receives it, with the keys and TLS of the environment; tests/clients/access.py says how it
// reports.

const { Producer, SimpleConsumer } = require('rocketmq-client-nodejs');

const [ endpoints, topic, consumerGroup, seconds ] = process.argv.slice(2);
const { ROCKETMQ_ACCESS_KEY: accessKey, ROCKETMQ_SECRET_KEY: accessSecret, DRIVER_TLS: tls } = process.env;
const sessionCredentials = accessKey ? { accessKey, accessSecret } : undefined;
const logger = { debug() {}, info() {}, warn() {}, error() {} };
const common = { endpoints, sessionCredentials, namespace: '', sslEnabled: tls === 'true', logger };

function say(step, ok, detail = '') {
  console.log(JSON.stringify({ step, ok, detail: String(detail) }));
}

async function send() {
  const made = new Producer({ ...common, topic });
  await made.startup();
  await made.send({ topic, body: Buffer.from('body') });
}

async function receive() {
  const made = new SimpleConsumer({ ...common, consumerGroup, subscriptions: new Map([[ topic, '*' ]]), awaitDuration: 5_000 });
  await made.startup();
  const deadline = Date.now() + seconds * 1000;
  let last = new Error('it starts, and gets nothing');
  while (Date.now() < deadline) {
    try {
      const [ first ] = await made.receive(1, 20_000);
      if (first) {
        await made.ack(first);
        return;
      }
    } catch (error) {
      last = error;
    }
  }
  throw last;
}

async function main() {
  await send().then(() => say('sent', true), error => say('sent', false, error));
  await receive().then(() => say('received', true), error => say('received', false, error));
  process.exit(0);
}

main();
