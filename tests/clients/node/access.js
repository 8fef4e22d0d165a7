'use strict';

// Sends one message and consumes it, with the keys of the environment; tests/clients/access.py says how it reports.

const httpclient = require('urllib');
const { Consumer, Message, Producer } = require('ali-ons');

const [ nameSrv, topic, group, seconds ] = process.argv.slice(2);
const { ROCKETMQ_ACCESS_KEY: accessKey, ROCKETMQ_SECRET_KEY: secretKey } = process.env;
const silent = { debug() {}, info() {}, warn() {}, error() {} };
const keys = accessKey ? { accessKey, secretKey } : {};
const common = { httpclient, nameSrv, logger: silent, ...keys };

function say(step, ok, detail = '') {
  console.log(JSON.stringify({ step, ok, detail: String(detail) }));
}

function within(promise) {
  let timer;
  const late = new Promise((_, reject) => { timer = setTimeout(() => reject(new Error('it hangs')), seconds * 1000); });
  return Promise.race([ promise, late ]).finally(() => clearTimeout(timer));
}

async function send() {
  const made = new Producer({ ...common, producerGroup: `${group}-producers`, instanceName: `${group}-p` });
  made.on('error', () => {});
  await within(made.ready());
  return (await within(made.send(new Message(topic, '', 'body')))).sendStatus;
}

async function receive() {
  const made = new Consumer({
    ...common, consumerGroup: group, instanceName: `${group}-c`, consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET',
  });
  made.on('error', () => {});
  const got = new Promise(resolve => made.subscribe(topic, '*', async () => resolve()));
  await within(made.ready());
  await within(got);
}

async function main() {
  await send().then(status => say('sent', status === 'SEND_OK', status), error => say('sent', false, error));
  await receive().then(() => say('received', true), error => say('received', false, error));
  process.exit(0);
}

main();
