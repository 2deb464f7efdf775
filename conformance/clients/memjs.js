// The operations of a Node program with memjs.
'use strict';

const crypto = require('crypto');
const { Client } = require('memjs');

const client = Client.create(process.argv[2], { retries: 0, timeout: 5 });

async function check(name, condition) {
  let holds = false;
  let why = '';
  try {
    holds = await condition();
  } catch (error) {
    why = ` (${error.message})`;
  }
  console.log(`${holds ? 'ok' : 'not ok'} - ${name}${why}`);
}

const get = async (key) => {
  const { value } = await client.get(key);
  return value === null ? null : value.toString();
};

const refused = (promise) => promise.then(() => false, () => true);

async function values() {
  for (const size of [0, 1, 1023, 1024, 16384, 65536, 1000000]) {
    const bytes = crypto.randomBytes(size);
    await check(`value of ${size} bytes`, async () =>
      (await client.set('sized', bytes, {})) && (await client.get('sized')).value.equals(bytes));
  }
  await check('too large', async () => refused(client.set('sized', crypto.randomBytes(2000000), {})));
  await check('a refused value leaves nothing', async () => (await get('sized')) === null);
  await check('bytes', async () => (await client.set('b', '\0\r\nEND\r\n', {})) && (await get('b')) === '\0\r\nEND\r\n');
  const key = 'k'.repeat(250);
  await check('key of 250 bytes', async () => (await client.set(key, 'v', {})) && (await get(key)) === 'v');
}

async function conditions() {
  await check('replace of nothing', async () => !(await client.replace('c', 'a', {})));
  await check('add', async () => (await client.add('c', 'a', {})) && !(await client.add('c', 'b', {})));
  await check('replace', async () => (await client.replace('c', 'b', {})) && (await get('c')) === 'b');
  await check('append', async () => (await client.append('c', 'c')) && (await get('c')) === 'bc');
  // Its prepend sends an append, so there is nothing to check.
  await check('append to nothing', async () => refused(client.append('nothing', 'x')));
  await check('delete', async () => (await client.delete('c')) && (await get('c')) === null);
  await check('delete of nothing', async () => !(await client.delete('c')));
}

async function numbers() {
  await check('increment from a start', async () => (await client.increment('n', 1, { initial: 10 })).value === 10);
  await check('increment', async () => (await client.increment('n', 5, {})).value === 15);
  await check('decrement', async () => (await client.decrement('n', 20, {})).value === 0);
}

async function pipelines() {
  const keys = Array.from({ length: 500 }, (_, i) => `many:${i}`);
  await check('sets at once', async () => (await Promise.all(keys.map((key) => client.set(key, key, {})))).every(Boolean));
  await check('gets at once', async () => (await Promise.all(keys.map(get))).every((value, i) => value === keys[i]));
}

async function times() {
  await client.set('short', 'v', { expires: 1 });
  await client.set('touched', 'v', { expires: 1 });
  await check('touch', async () => (await client.touch('touched', 100)) && !(await client.touch('nothing', 100)));
  await new Promise((resolve) => setTimeout(resolve, 2100));
  await check('expired', async () => (await get('short')) === null);
  await check('not expired', async () => (await get('touched')) === 'v');
}

function stats(key) {
  return new Promise((resolve, reject) =>
    client.statsWithKey(key, (error, _, found) => (error ? reject(error) : resolve(found))));
}

async function server() {
  await check('stats', async () => Number((await stats('')).curr_items) > 0);
  await check('stats settings', async () => Number((await stats('settings')).maxbytes) > 0);
  await check('flush', async () => (await client.flush()) && (await get('n')) === null);
}

(async () => {
  for (const part of [values, conditions, numbers, pipelines, times, server]) await part();
  client.close();
  console.log('done');
})();
