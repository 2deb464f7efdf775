// Loads by several clients.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { Client } from 'larder-cache';

import { startLarderd, startMemcached, until } from './servers.mjs';

async function clients(t, start = startLarderd) {
    const server = await start(t);
    if (server === undefined) return undefined;
    const address = server.unix ?? server.tcp;
    const both = [new Client(address), new Client(address)];
    t.after(() => Promise.all(both.map((client) => client.close())));
    return { server, both };
}

test('of all callers of several clients one loads', async (t) => {
    for (const start of [startLarderd, startMemcached]) {
        const started = await clients(t, start);
        if (started === undefined) return;
        const { both } = started;
        let loads = 0;
        const load = async () => {
            await sleep(100);
            return { number: ++loads };
        };
        const callers = [0, 1, 0, 1].map((at) => both[at].wrap('key', 10_000, load));
        assert.deepEqual(await Promise.all(callers), Array(4).fill({ number: 1 }));
        assert.deepEqual(await both[1].wrap('key', 10_000, load), { number: 1 });
        assert.equal(loads, 1);
    }
});

test('a read during a load is a miss', async (t) => {
    const { both } = await clients(t);
    let end;
    const loaded = both[0].wrap('key', 1000, () => new Promise((resolve) => (end = resolve)));
    await until(() => end !== undefined, 'the loader is not called');
    for (const client of both) {
        assert.equal(await client.get('key'), undefined);
        assert.deepEqual(await client.getMany(['key']), new Map());
    }
    end('value');
    assert.equal(await loaded, 'value');
    assert.equal(await both[1].get('key'), 'value');
});

test('the error of a loader is not cached, and the next caller loads', async (t) => {
    const { both } = await clients(t);
    let fails = false;
    const fail = async () => {
        fails = true;
        await sleep(50);
        throw new Error('no database');
    };
    const failing = both[0].wrap('key', 1000, fail);
    const joined = both[0].wrap('key', 1000, () => 'not called');
    await until(() => fails, 'the loader is not called');
    const began = Date.now();
    const waiting = both[1].wrap('key', 1000, () => 'loaded');
    await assert.rejects(failing, /no database/);
    await assert.rejects(joined, /no database/);
    assert.equal(await waiting, 'loaded');
    assert.ok(Date.now() - began < 10_000, 'it waited for the lease');
});

test('a result is not stored if the key was stored or deleted during the load', async (t) => {
    const { both } = await clients(t);
    const result = await both[0].wrap('set', 1000, async () => {
        await both[1].set('set', 'newer');
        return 'older';
    });
    assert.deepEqual([result, await both[0].get('set')], ['older', 'newer']);
    await both[0].wrap('delete', 1000, async () => {
        await both[1].delete('delete');
        return 'older';
    });
    assert.equal(await both[0].get('delete'), undefined);
    assert.equal(await both[0].wrap('none', 1000, () => undefined), undefined);
    assert.equal(await both[1].wrap('none', 1000, () => 1), 1);
});

test('callers receive the old value while one refreshes it', async (t) => {
    const { both } = await clients(t);
    let loads = 0;
    const load = () => ++loads;
    const wrap = (client) => client.wrap('key', 1000, load, { stale: 60_000 });
    assert.equal(await wrap(both[0]), 1);
    await until(async () => (await both[1].ttlOf('key')) < 60_000, 'the time does not pass');
    const values = await Promise.all([wrap(both[0]), wrap(both[1])]);
    assert.deepEqual(values.filter((value) => value === 1).length > 0, true);
    await until(async () => (await both[1].get('key')) === 2, 'the value is not refreshed');
    assert.equal(loads, 2);
});

test('an aborted load ends when no caller waits for it', async (t) => {
    const { both } = await clients(t);
    const controller = new AbortController();
    let inner;
    const load = ({ signal }) => {
        inner = signal;
        return new Promise(() => undefined);
    };
    const aborted = both[0].wrap('key', 1000, load, { signal: controller.signal });
    await until(() => inner !== undefined, 'the loader is not called');
    controller.abort(new Error('stop'));
    await assert.rejects(aborted, /stop/);
    assert.equal(inner.aborted, true);
    assert.equal(await both[1].wrap('key', 1000, () => 'other'), 'other');
});

test('a loader that waits for itself is an error', async (t) => {
    const { both } = await clients(t);
    const recursive = () => both[0].wrap('key', 1000, () => both[0].wrap('key', 1000, () => 1));
    await assert.rejects(recursive, { code: 'ERR_LARDER_RECURSIVE' });
});

test('another client takes over after the lease of a process that was killed', async (t) => {
    const { server, both } = await clients(t);
    const program = `
        const { Client } = require('larder-cache');
        const load = () => new Promise(() => process.send('loading'));
        new Client(process.argv[1]).wrap('key', 1000, load, { lease: 2000 });
        setInterval(() => undefined, 1000);
    `;
    const stdio = ['ignore', 'inherit', 'inherit', 'ipc'];
    const options = { cwd: new URL('.', import.meta.url), stdio };
    const child = spawn(process.execPath, ['-e', program, server.unix], options);
    t.after(() => child.kill('SIGKILL'));
    await new Promise((resolve) => child.once('message', resolve));
    child.kill('SIGKILL');
    assert.equal(await both[0].wrap('key', 1000, () => 'mine', { wait: 60_000 }), 'mine');
    assert.equal(await both[1].get('key'), 'mine');
});
