// Responses that are cut, wrong or late: no request receives the response of another one.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Client } from 'larder-cache';

import { opaque, scripted } from './servers.mjs';

/** Returns a client of a server that sends `response(line)` for each meta request. */
async function clientOf(t, response, options = {}) {
    const server = await scripted(t, (socket, line) => {
        if (/^m[gsda] /.test(line)) socket.write(response(line, socket), 'latin1');
    });
    const client = new Client(server.tcp, { timeout: 5000, retryDelay: 0, ...options });
    t.after(() => client[Symbol.dispose]());
    return { client, server };
}

test('responses may arrive in pieces of single bytes', async (t) => {
    const server = await scripted(t, async (socket, line) => {
        if (!line.startsWith('mg')) return;
        const value = `value of ${line.split(' ')[1]}`;
        const response = `VA ${value.length} f11 ${opaque(line)}\r\n${value}\r\n`;
        queue = queue.then(async () => {
            for (const byte of response) {
                await new Promise((resolve) => socket.write(byte, resolve));
                await new Promise(setImmediate);
            }
        });
    });
    let queue = Promise.resolve();
    const client = new Client(server.tcp, { timeout: 20_000 });
    t.after(() => client.close());
    const found = await client.getMany(['a', 'b', 'c']);
    assert.deepEqual([...found.values()], ['value of a', 'value of b', 'value of c']);
});

test('an invalid response is an error and ends the connection', async (t) => {
    const invalid = [
        () => 'garbage\r\n',
        () => '\r\n',
        () => 'HD\n',
        (line) => `VA x f0 ${opaque(line)}\r\n\r\n`,
        (line) => `VA -1 f0 ${opaque(line)}\r\n\r\n`,
        (line) => `VA 1f0 ${opaque(line)}\r\n1\r\n`,
        (line) => `VA 1 fx ${opaque(line)}\r\n1\r\n`,
        (line) => `VA 1 f0  ${opaque(line)}\r\n1\r\n`,
        (line) => `VA 1 f0 ?7 ${opaque(line)}\r\n1\r\n`,
        (line) => `VA 1 f0 ${opaque(line)}\r\nlonger than it says\r\n`,
        () => 'VA 1 f0 O999\r\n1\r\n',
        () => 'VA 1 f0\r\n1\r\n',
        (line) => `NS ${opaque(line)}\r\n`,
        (line) => `HD ${opaque(line)}\r\n`,
        () => 'EN O999\r\n',
        () => 'STORED\r\n',
        () => 'ERRONEOUS\r\n',
        (line) => `EN ${opaque(line)}\r\nEN ${opaque(line)}\r\n`,
        () => 'x'.repeat(100_000),
    ];
    for (const response of invalid) {
        const { client, server } = await clientOf(t, response);
        const name = String(response);
        // The response to the second request may be the surplus one of the first.
        const results = await Promise.allSettled([client.get('a'), client.get('b')]);
        const rejected = results.filter(({ status }) => status === 'rejected');
        assert.ok(rejected.length > 0, name);
        for (const { reason } of rejected) assert.equal(reason.code, 'ERR_LARDER_PROTOCOL', name);
        for (const { value } of results) assert.equal(value, undefined, name);
        await client.get('c').catch(() => undefined);
        assert.equal(server.connections, 2, name);
    }
});

test('a length that a server announces is no reason to allocate memory', async (t) => {
    const huge = (line) => `VA 999999999 f0 ${opaque(line)}\r\nabc`;
    const { client } = await clientOf(t, huge, { timeout: 300 });
    const before = process.memoryUsage().arrayBuffers;
    const read = assert.rejects(client.get('key'), { code: 'ERR_LARDER_TIMEOUT' });
    await new Promise((resolve) => setTimeout(resolve, 150));
    assert.ok(process.memoryUsage().arrayBuffers - before < 16 * 2 ** 20);
    await read;
    const limited = await clientOf(t, huge, { maxValue: '1M' });
    await assert.rejects(limited.client.get('key'), { code: 'ERR_LARDER_PROTOCOL' });
    const endless = await clientOf(t, (line) => `VA ${'9'.repeat(30)} f0 ${opaque(line)}\r\n`);
    await assert.rejects(endless.client.get('key'), { code: 'ERR_LARDER_PROTOCOL' });
});

test('an error of a server belongs to one request', async (t) => {
    const errors = {
        'SERVER_ERROR object too large for cache': 'ERR_LARDER_TOO_LARGE',
        'SERVER_ERROR out of memory storing object': 'ERR_LARDER_STORE',
        'CLIENT_ERROR not permitted: the user lacks the right read': 'ERR_LARDER_SERVER',
        ERROR: 'ERR_LARDER_SERVER',
    };
    for (const [line, code] of Object.entries(errors)) {
        const { client, server } = await clientOf(t, (request) =>
            request.startsWith('mg bad') ? `${line}\r\n` : `EN ${opaque(request)}\r\n`,
        );
        const [bad, good] = await Promise.allSettled([client.get('bad'), client.get('good')]);
        assert.equal(bad.reason.code, code);
        assert.deepEqual(good, { status: 'fulfilled', value: undefined });
        assert.equal(server.connections, 1);
    }
});

test('a connection that ends in the middle of a response fails its requests', async (t) => {
    const { client } = await clientOf(t, (line, socket) => {
        if (!line.startsWith('mg a')) return '';
        setTimeout(() => socket.destroy(), 20);
        return `VA 10 f0 ${opaque(line)}\r\nabc`;
    });
    const results = await Promise.allSettled([client.get('a'), client.get('b')]);
    for (const { reason } of results) assert.equal(reason.code, 'ERR_LARDER_UNAVAILABLE');
});

test('an aborted request does not shift the responses of others', async (t) => {
    const waiting = [];
    const server = await scripted(t, (socket, line) => {
        const key = line.split(' ')[1];
        waiting.push(() => socket.write(`VA 1 f11 ${opaque(line)}\r\n${key}\r\n`));
    });
    const client = new Client(server.tcp, { timeout: 5000 });
    t.after(() => client.close());
    const controller = new AbortController();
    const aborted = client.get('a', { signal: controller.signal });
    const others = [client.get('b'), client.get('c')];
    while (waiting.length < 3) await new Promise((resolve) => setTimeout(resolve, 5));
    controller.abort(new Error('no longer needed'));
    await assert.rejects(aborted, /no longer needed/);
    for (const respond of waiting) respond();
    assert.deepEqual(await Promise.all(others), ['b', 'c']);
    const refused = client.get('d', { signal: AbortSignal.abort() });
    await assert.rejects(refused, { name: 'AbortError' });
    assert.equal(server.requests.length, 3);
});

test('requests beyond the limits of a connection are refused', async (t) => {
    const server = await scripted(t);
    const client = new Client(server.tcp, { maxPending: 2, maxQueued: '1K', timeout: 300 });
    t.after(() => client[Symbol.dispose]());
    const first = client.set('key', 'x'.repeat(900));
    await assert.rejects(client.set('key', 'x'.repeat(900)), { code: 'ERR_LARDER_UNAVAILABLE' });
    const second = client.get('key');
    await assert.rejects(client.get('key'), { code: 'ERR_LARDER_UNAVAILABLE' });
    for (const request of [first, second]) {
        await assert.rejects(request, { code: 'ERR_LARDER_TIMEOUT' });
    }
});
