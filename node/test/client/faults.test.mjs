// Servers that are away, hang or come back, and the end of a client.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createRequire } from 'node:module';
import { test } from 'node:test';

import { Client } from 'larder-cache';

import { freePort, scripted, startLarderd, until } from './servers.mjs';

const { Ring } = createRequire(import.meta.url)('../../larder.node');

test('a server that does not exist is an error, and is asked again after a pause', async (t) => {
    const port = await freePort();
    const client = new Client(`127.0.0.1:${port}`, { retryDelay: 200 });
    t.after(() => client.close());
    await assert.rejects(client.get('key'), (error) => {
        assert.equal(error.code, 'ERR_LARDER_UNAVAILABLE');
        assert.match(error.message, new RegExp(`127.0.0.1:${port} cannot be reached`));
        return true;
    });
    await assert.rejects(client.set('key', 1), /the next attempt is possible in \d+ ms/);
    await until(async () => {
        const error = await client.get('key').catch((error) => error);
        return !error.message.includes('next attempt');
    }, 'the server is not asked again');
});

test('a server that was killed is found again when it is back', async (t) => {
    const server = await startLarderd(t);
    for (const address of [server.tcp, server.unix]) {
        const client = new Client(address, { retryDelay: 20 });
        t.after(() => client.close());
        await client.set('key', 1);
        const lost = Array.from({ length: 10 }, () => client.ttlOf('key'));
        const outcomes = Promise.allSettled(lost);
        await server.pause().then(() => server.kill());
        for (const { status, reason } of await outcomes) {
            if (status === 'rejected') assert.equal(reason.code, 'ERR_LARDER_UNAVAILABLE');
        }
        await assert.rejects(client.set('key', 2), { code: 'ERR_LARDER_UNAVAILABLE' });
        await server.start();
        await until(
            () =>
                client.set('key', 3).then(
                    () => true,
                    () => false,
                ),
            'it is not found',
        );
        assert.equal(await client.get('key'), 3);
    }
});

test('a stopped server is an error after the timeout, and works when it resumes', async (t) => {
    const server = await startLarderd(t);
    const client = new Client(server.tcp, { timeout: 200, retryDelay: 50 });
    t.after(() => client.close());
    await client.set('key', 1);
    await server.pause();
    const began = Date.now();
    await assert.rejects(client.get('key'), { code: 'ERR_LARDER_TIMEOUT' });
    assert.ok(Date.now() - began >= 190);
    await assert.rejects(client.get('key'), { code: 'ERR_LARDER_UNAVAILABLE' });
    server.resume();
    await until(
        () =>
            client.get('key').then(
                (value) => value === 1,
                () => false,
            ),
        'it is away',
    );
});

test('with onUnavailable: miss, a server that is away has no items', async (t) => {
    const port = await freePort();
    const client = new Client(`127.0.0.1:${port}`, { onUnavailable: 'miss' });
    t.after(() => client.close());
    assert.equal(await client.get('key'), undefined);
    assert.equal(await client.getWithToken('key'), undefined);
    assert.deepEqual(await client.getMany(['key']), new Map());
    assert.equal(await client.set('key', 1), undefined);
    assert.deepEqual(await client.setMany([['key', 1]]), ['key']);
    assert.deepEqual([await client.add('key', 1), await client.replace('key', 1)], [false, false]);
    assert.equal(await client.compareAndSet('key', 1, 1n), undefined);
    assert.deepEqual([await client.append('key', ''), await client.has('key')], [false, false]);
    assert.deepEqual([await client.delete('key'), await client.touch('key')], [false, false]);
    assert.equal(await client.wrap('key', 1000, () => 'loaded'), 'loaded');
    await assert.rejects(client.increment('key'), { code: 'ERR_LARDER_UNAVAILABLE' });
    await assert.rejects(client.version(), { code: 'ERR_LARDER_UNAVAILABLE' });
});

test('keys have the same servers as in other clients, which fail only their own', async (t) => {
    const servers = [await startLarderd(t), await startLarderd(t)];
    const specs = [servers[0].tcp, { host: '127.0.0.1', port: servers[1].port, weight: 3 }];
    const client = new Client(specs, { prefix: 'p:' });
    t.after(() => client.close());
    const ring = new Ring(
        servers.map(({ tcp }) => tcp),
        [1, 3],
    );
    const keys = [...Array.from({ length: 200 }, (_, at) => `key${at}`), 'ü b', Buffer.from([255])];
    assert.deepEqual(await client.setMany(keys.map((key) => [key, 1])), []);
    const each = servers.map(({ tcp }) => new Client(tcp, { prefix: 'p:' }));
    const owned = [[], []];
    for (const key of keys) {
        const owner = ring.ownerOf(key);
        owned[owner].push(key);
        assert.equal(await each[owner].get(key), 1);
        assert.equal(await each[1 - owner].get(key), undefined);
    }
    assert.ok(owned[1].length > 1.5 * owned[0].length && owned[0].length > 10);
    await Promise.all(each.map((client) => client.close()));
    assert.deepEqual(
        [...(await client.version()).keys()],
        servers.map(({ tcp }) => tcp),
    );

    await servers[0].kill();
    assert.deepEqual(await client.setMany(keys.map((key) => [key, 2])), owned[0]);
    await assert.rejects(client.getMany(keys), { code: 'ERR_LARDER_UNAVAILABLE' });
    assert.equal((await client.getMany(owned[1])).size, owned[1].length);
    const kind = new Client(specs, { prefix: 'p:', onUnavailable: 'miss' });
    t.after(() => kind.close());
    assert.deepEqual([...(await kind.getMany(keys)).keys()], owned[1]);
});

test('close waits for requests in flight, and later ones are refused', async (t) => {
    const client = new Client((await startLarderd(t)).tcp);
    const requests = [client.set('key', 1), client.get('key')];
    await client.close();
    assert.deepEqual(await Promise.all(requests), [undefined, 1]);
    assert.equal(client.closed, true);
    for (const request of [client.get('key'), client.set('key', 1), client.version()]) {
        await assert.rejects(request, { code: 'ERR_LARDER_CLOSED' });
    }
    await client.close();
});

test('dispose fails requests in flight', async (t) => {
    const client = new Client((await scripted(t)).tcp);
    const request = client.get('key');
    client[Symbol.dispose]();
    await assert.rejects(request, { code: 'ERR_LARDER_CLOSED' });
});

test('an open client does not keep a process alive', async (t) => {
    const server = await startLarderd(t);
    const program = `
        const { Client } = require('larder-cache');
        for (const address of process.argv.slice(1)) {
            const client = new Client(address, { timeout: 60_000 });
            client.set('key', 1).then(() => client.get('key')).then(console.log);
        }
    `;
    const args = ['-e', program, server.tcp, server.unix];
    const child = spawn(process.execPath, args, {
        cwd: new URL('.', import.meta.url),
        timeout: 20_000,
        killSignal: 'SIGKILL',
    });
    let output = '';
    child.stdout.on('data', (data) => (output += data));
    const [status] = await once(child, 'close');
    assert.deepEqual([status, output], [0, '1\n1\n']);
});

test('wrong servers and options are errors', () => {
    const servers = ['', 'host:0', 'host:65536', 'host:port', '::1', 17, [], ['a', 'a:11211'], {}];
    for (const server of [...servers, { host: 'a', weight: 0 }, { path: '' }, 'unix:', null]) {
        assert.throws(() => new Client(server), { code: 'ERR_LARDER_ARGUMENT' });
    }
    for (const options of [
        { timeout: 0 },
        { ttl: 0 },
        { retries: 1 },
        { onUnavailable: 'retry' },
        { connections: 0 },
        { username: 'u' },
        { username: 'a b', password: 'c' },
        { username: 'a', password: 'b c' },
        { prefix: 'x'.repeat(250) },
        { tls: 'yes' },
        { codec: 'xml' },
        null,
    ]) {
        assert.throws(() => new Client('host', options), { code: 'ERR_LARDER_ARGUMENT' });
    }
    const names = ['host', 'host:1', '[::1]:2', '[::1]', 'unix:/a', '/b', { host: '::2' }];
    const expected = ['host:11211', 'host:1', '[::1]:2', '[::1]:11211', '/a', '/b', '[::2]:11211'];
    assert.deepEqual(new Client(names).servers, expected);
});
