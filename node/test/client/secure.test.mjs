// TLS and logins.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

import { Client } from 'larder-cache';

import { certificate, folder, scripted, startLarderd } from './servers.mjs';

test('a client speaks TLS with servers whose certificates it trusts', async (t) => {
    const { cert, key } = certificate(t);
    const words = `ssl_chain_cert=${cert},ssl_key=${key}`;
    const server = await startLarderd(t, '-Z', '-o', words);
    const client = new Client(server.tcp, { tls: { ca: readFileSync(cert) }, timeout: 20_000 });
    t.after(() => client.close());
    const long = Buffer.alloc(500_000, 'abc');
    await client.set('long', long);
    assert.ok((await client.get('long')).equals(long));
    const keys = Array.from({ length: 1000 }, (_, at) => `key${at}`);
    assert.deepEqual(await client.setMany(keys.map((key) => [key, key])), []);
    assert.equal((await client.getMany(keys)).size, 1000);

    const stranger = new Client(server.tcp, { tls: true });
    t.after(() => stranger.close());
    await assert.rejects(stranger.get('key'), /self.signed certificate/);
    // The unix socket of the same server has no TLS.
    const local = new Client(server.unix, { tls: true });
    t.after(() => local.close());
    assert.equal(await local.get('key7'), 'key7');
});

test('a client logs in on each connection', async (t) => {
    const file = join(folder(t), 'users');
    writeFileSync(file, 'ada:sesame\n');
    const server = await startLarderd(t, '-Y', file);
    const login = { username: 'ada', password: 'sesame', connections: 2, retryDelay: 0 };
    const client = new Client(server.tcp, login);
    t.after(() => client.close());
    await Promise.all(Array.from({ length: 20 }, (_, at) => client.set(`key${at}`, at)));
    assert.equal(await client.get('key7'), 7);
    for (const password of ['wrong', '']) {
        const stranger = new Client(server.tcp, { ...login, password });
        t.after(() => stranger.close());
        await assert.rejects(stranger.get('key7'), (error) => {
            assert.equal(error.code, 'ERR_LARDER_SERVER');
            assert.match(error.message, /refused the login: .*authentication/);
            return true;
        });
    }
    const anonymous = new Client(server.tcp);
    t.after(() => anonymous.close());
    await assert.rejects(anonymous.get('key7'), { code: 'ERR_LARDER_SERVER' });
});

test('a server that needs no login does not keep the password', async (t) => {
    const server = await startLarderd(t);
    const client = new Client(server.tcp, { username: 'ada', password: 'sesame' });
    t.after(() => client.close());
    assert.equal(await client.get('larder_login'), undefined);
    const silent = await scripted(t);
    const options = { username: 'ada', password: 'sesame', connectTimeout: 100 };
    const waiting = new Client(silent.tcp, options);
    await assert.rejects(waiting.get('key'), { code: 'ERR_LARDER_TIMEOUT' });
    assert.deepEqual(silent.requests, ['set larder_login 0 -1 10', 'ada sesame']);
});
