// Hits that are read in the memory of a larderd.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Client } from 'larder-cache';

import { startLarderd, startMemcached, until } from './servers.mjs';

async function start(t, options) {
    const server = await startLarderd(t);
    const client = new Client(server.unix, options);
    t.after(() => client.close());
    await client.set('key', 1);
    if (options?.local !== false) await until(() => opened(client), 'the memory is not read');
    return { server, client };
}

async function opened(client) {
    await client.get('key').catch(() => undefined);
    return client.readsMemory;
}

async function requested(server) {
    const client = new Client(server.tcp);
    const [stats] = (await client.stats()).values();
    await client.close();
    return stats.cmd_get;
}

test('hits of all types are read without a request', async (t) => {
    const { server, client } = await start(t);
    const values = ['text', 'é', 17, 2n ** 60n, 1.5, true, false, null, { a: 1 }, Buffer.from([1])];
    for (const [at, value] of values.entries()) await client.set(`k ${at}`, value);
    await server.pause();
    try {
        for (const [at, value] of values.entries()) {
            assert.deepEqual(await client.get(`k ${at}`), value);
        }
        const keys = values.map((_, at) => `k ${at}`);
        assert.deepEqual([...(await client.getMany(keys)).values()], values);
    } finally {
        server.resume();
    }
});

test('misses, and only they, are requested', async (t) => {
    const { server, client } = await start(t);
    const before = await requested(server);
    assert.equal(await client.get('none'), undefined);
    assert.deepEqual(await client.getMany(['key', 'none', 'nothing']), new Map([['key', 1]]));
    assert.equal((await requested(server)) - before, 3);
});

test('a read after a change sees the change, also before its response', async (t) => {
    const { client } = await start(t);
    const reads = [];
    for (let number = 0; number < 500; number++) {
        client.set('key', number);
        reads.push(client.get('key'));
        if (number % 10 === 0) await reads.at(-1);
    }
    assert.deepEqual(
        await Promise.all(reads),
        Array.from({ length: 500 }, (_, at) => at),
    );
    const deleted = client.delete('key');
    assert.equal(await client.get('key'), undefined);
    await deleted;
    await client.set('key', 1);
    const flushed = client.flush();
    assert.equal(await client.get('key'), undefined);
    await flushed;
});

test('a restarted server has another memory', async (t) => {
    const { server, client } = await start(t, { retryDelay: 10 });
    await server.restart();
    await until(
        () =>
            client.set('key', 2).then(
                () => true,
                () => false,
            ),
        'it is not found',
    );
    assert.equal(await client.get('key'), 2);
    await until(() => opened(client), 'the memory is not read again');
    assert.equal(await client.get('key'), 2);
});

test('a server that was killed has no hits for long', async (t) => {
    const { server, client } = await start(t);
    await server.kill();
    const fails = () =>
        client.get('key').then(
            () => false,
            () => true,
        );
    await until(fails, 'the memory of a killed server is read');
    assert.equal(client.readsMemory, false);
});

test('servers that share no memory are asked', async (t) => {
    const { server, client } = await start(t, { local: false });
    const before = await requested(server);
    assert.equal(await client.get('key'), 1);
    assert.equal((await requested(server)) - before, 1);
    assert.equal(client.readsMemory, false);
    const memcached = await startMemcached(t);
    if (memcached === undefined) return;
    const other = new Client(memcached.tcp);
    t.after(() => other.close());
    assert.equal(await other.get('key'), undefined);
});
