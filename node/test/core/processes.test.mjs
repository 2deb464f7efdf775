// wrap between threads and processes: one of all loads, also if it is ended or killed.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { Cache } from 'larder-cache';

import { message, newPath, node, thread, until } from './support.mjs';

const unexpected = () => assert.fail('another process loads the value');

function cacheIn(path, options) {
    return new Cache({ memory: '16M', shared: path, ...options });
}

// Loads a slow value when the test says so, and answers how often it was called.
const LOADS = `
const cache = new Cache({ shared: path });
let calls = 0;
say('ready');
for await (const _ of input) {
    const value = await cache.wrap('k', 60_000, async () => {
        calls += 1;
        await sleep(300);
        return 42;
    });
    say([value, calls]);
}`;

test('of several processes one loads', async () => {
    const path = newPath();
    const programs = [1, 2, 3, 4].map(() => node(LOADS, path));
    for (const program of programs) assert.equal(await program.line(), 'ready');
    const answers = await Promise.all(programs.map((program) => program.ask('go')));
    const results = answers.map((answer) => JSON.parse(answer));
    assert.deepEqual(results.map(([value]) => value), [42, 42, 42, 42]);
    assert.equal(results.reduce((sum, [, calls]) => sum + calls, 0), 1);
    for (const program of programs) assert.equal(await program.end(), 0);
});

test('of several threads one loads', async () => {
    const script = `
        const cache = new Cache({ shared: workerData });
        port.once('message', async () => {
            let calls = 0;
            const value = await cache.wrap('k', 60_000, async () => {
                calls += 1;
                await sleep(200);
                return 'v';
            });
            port.postMessage([value, calls]);
        });
        port.postMessage('ready');`;
    const path = newPath();
    const workers = [1, 2, 3, 4].map(() => thread(script, path));
    await Promise.all(workers.map(message));
    for (const worker of workers) worker.postMessage('go');
    const results = await Promise.all(workers.map(message));
    assert.deepEqual(results.map(([value]) => value), ['v', 'v', 'v', 'v']);
    assert.equal(results.reduce((sum, [, calls]) => sum + calls, 0), 1);
});

test('of the workers of a cluster one loads', async () => {
    const program = node(`
        const { default: cluster } = await import('node:cluster');
        const { writeFileSync } = await import('node:fs');
        const worker = path + '.mjs';
        writeFileSync(worker, \`
            import { createRequire } from 'node:module';
            const { Cache } = createRequire(\${JSON.stringify(process.cwd() + '/')})('larder-cache');
            const cache = new Cache({ shared: process.env.CACHE });
            let calls = 0;
            process.on('message', async () => {
                const load = async () => {
                    calls += 1;
                    return await new Promise((resolve) => setTimeout(resolve, 200, 'v'));
                };
                process.send([await cache.wrap('k', 60_000, load), calls]);
                process.disconnect();
            });
            process.send('ready');\`);
        cluster.setupPrimary({ exec: worker, args: [], execArgv: [] });
        const workers = [1, 2, 3].map(() => cluster.fork({ CACHE: path }));
        const next = (worker) => new Promise((resolve) => worker.once('message', resolve));
        await Promise.all(workers.map(next));
        const answers = workers.map(next);
        for (const worker of workers) worker.send('go');
        say(await Promise.all(answers));
        input.close();`, newPath());
    const results = JSON.parse(await program.line());
    assert.deepEqual(results.map(([value]) => value), ['v', 'v', 'v']);
    assert.equal(results.reduce((sum, [, calls]) => sum + calls, 0), 1);
    assert.equal(await program.end(), 0);
});

// Loads for as long as the test wants, and says when it has begun.
const HOLDS = `
const cache = new Cache({ shared: path });
const lines = input[Symbol.asyncIterator]();
const load = cache.wrap('k', 60_000, async () => {
    say('loading');
    const { value } = await lines.next();
    if (value === 'fail') throw new RangeError('the table is empty');
    return value;
}, { lease: Number(args[0] ?? 60_000) });
say(await load.catch((error) => error.message));
input.close();`;

async function holder(path, ...args) {
    const program = node(HOLDS, path, ...args);
    assert.equal(await program.line(), 'loading');
    return program;
}

test('an error reaches the processes that wait, and is not cached', async () => {
    const cache = cacheIn(newPath());
    const leader = await holder(cache.path);
    const waiting = [1, 2, 3].map(() => cache.wrap('k', 1000, unexpected));
    await sleep(100);
    assert.equal(await leader.ask('fail'), 'the table is empty');
    for (const { reason } of await Promise.allSettled(waiting)) {
        assert.equal(reason.code, 'ERR_LARDER_LOAD');
        assert.equal(reason.loader, 'RangeError');
        assert.match(reason.message, /loader in another process failed: RangeError: the table is empty/);
    }
    assert.equal(await cache.wrap('k', 1000, () => 'again'), 'again');
    assert.deepEqual([...cache.keys()], ['k'], 'the note about the error is not an item');
    assert.equal(await leader.end(), 0);
});

test('a killed process leaves its load to another one', async () => {
    const cache = cacheIn(newPath());
    const leader = await holder(cache.path);
    const waiting = [1, 2, 3].map(() => cache.wrap('k', 1000, () => 'ours'));
    await sleep(100);
    const began = performance.now();
    await leader.kill();
    assert.deepEqual(await Promise.all(waiting), ['ours', 'ours', 'ours']);
    assert.ok(performance.now() - began < 1000, `${performance.now() - began} ms`);
});

test('a stopped process keeps its load until its lease ends, and its result is not stored', async () => {
    const cache = cacheIn(newPath());
    const leader = await holder(cache.path, 500);
    leader.process.kill('SIGSTOP');
    const began = performance.now();
    assert.equal(await cache.wrap('k', 60_000, () => 'ours'), 'ours');
    assert.ok(performance.now() - began < 3000);
    leader.process.kill('SIGCONT');
    assert.equal(await leader.ask('late'), 'late');
    assert.equal(cache.get('k'), 'ours');
    assert.equal(await leader.end(), 0);
});

test('a delete in another process keeps a result from being stored', async () => {
    const cache = cacheIn(newPath());
    const leader = await holder(cache.path);
    cache.delete('k');
    assert.equal(await leader.ask('outdated'), 'outdated');
    assert.equal(cache.get('k'), undefined);
    assert.equal(await leader.end(), 0);
});

test('a terminated thread leaves its load to another one', async () => {
    const cache = cacheIn(newPath());
    for (let round = 0; round < 5; round += 1) {
        const worker = thread(`
            const cache = new Cache({ shared: workerData });
            const lease = cache.lease('lease', 60_000);
            cache.wrap('k', 1000, () => { port.postMessage('loading'); return new Promise(() => {}); });
            setInterval(() => lease, 1000);`, cache.path);
        assert.equal(await message(worker), 'loading');
        const waiting = cache.wrap('k', 1000, () => 'ours');
        await sleep(20);
        const began = performance.now();
        await worker.terminate();
        assert.equal(await waiting, 'ours');
        assert.ok(performance.now() - began < 1000, `${performance.now() - began} ms`);
        await until(() => cache.lease('lease', 60_000)?.release(), 'the end of the lease', 1000);
        cache.delete('k');
    }
});

test('threads that end in the middle of operations harm no other thread', async () => {
    const cache = cacheIn(newPath());
    for (let round = 0; round < 10; round += 1) {
        const worker = thread(`
            const cache = new Cache({ shared: workerData });
            const own = new Cache({ memory: '4M' });
            port.postMessage('ready');
            for (let n = 0; ; n += 1) {
                cache.set('k' + (n % 100), Buffer.alloc(n % 9000, n));
                own.set('k', cache.get('k' + ((n + 1) % 100)) ?? null);
            }`, cache.path);
        await message(worker);
        await sleep(10);
        await worker.terminate();
        cache.set('own', round);
        assert.equal(cache.get('own'), round);
    }
    for (const [key, value] of cache.entries('k')) assert.ok(new Set(value).size <= 1, `${key} is torn`);
});

for (const [how, code] of Object.entries({
    'process.exit': 'process.exit(0);',
    'its last event': 'input.close();',
    'an exit in a loader': "await cache.wrap('exit', 1000, () => process.exit(0));",
})) {
    test(`a process ends by ${how} while it loads`, async () => {
        const cache = cacheIn(newPath());
        const program = node(`
            const cache = new Cache({ shared: path });
            const own = new Cache({ memory: '4M' });
            for (let n = 0; n < 8; n += 1) {
                void cache.wrap('k' + n, 1000, () => new Promise(() => {}));
                void own.wrap('k' + n, 1000, () => new Promise(() => {}));
            }
            globalThis.kept = cache.lease('lease', 60_000);
            globalThis.walk = cache.keys();
            say('loading');
            ${code}`, cache.path);
        assert.equal(await program.line(), 'loading');
        const began = performance.now();
        assert.equal(await program.end(), 0, program.errors);
        assert.ok(performance.now() - began < 5000);
        assert.equal(program.errors, '');
        assert.equal(await cache.wrap('k0', 1000, () => 'next'), 'next');
        assert.ok(cache.lease('lease', 10));
        assert.ok(performance.now() - began < 6000);
    });
}

const STORMS = `
const cache = new Cache({ shared: path, memory: '16M' });
say('ready');
for (let n = 0; ; n += 1) {
    const key = 'k' + ((n * 7919 + Number(args[0])) % 50);
    const value = await cache.wrap(key, 1000, async () => key.repeat(100));
    if (value !== key.repeat(100)) { say('wrong ' + value); process.exit(1); }
    cache.set('s' + (n % 200), Buffer.alloc(n % 5000, n));
    cache.delete(key);
    cache.increment('n');
    if (n % 100 === 0) await sleep(0);
}`;

test('killed processes harm no other process', { timeout: 300_000 }, async () => {
    // SECS=60 is the long form.
    const ends = Date.now() + 1000 * Number(process.env.SECS ?? '4');
    const cache = cacheIn(newPath());
    const workers = [0, 1].map((seed) => node(STORMS, cache.path, seed));
    let [kills, reads, longest] = [0, 0, 0];
    while (Date.now() < ends) {
        await workers[0].line();
        await sleep(50);
        await workers.shift().kill();
        kills += 1;
        workers.push(node(STORMS, cache.path, kills));
        for (const pause = Date.now() + 50; Date.now() < pause; reads += 1) {
            const key = `k${reads % 50}`;
            const began = performance.now();
            assert.equal(await cache.wrap(key, 1000, () => key.repeat(100)), key.repeat(100));
            cache.set(`own${reads % 100}`, reads);
            longest = Math.max(longest, performance.now() - began);
        }
    }
    for (const worker of workers) {
        assert.equal(worker.process.exitCode, null, worker.errors);
        await worker.kill();
    }
    assert.ok(kills > 3, `${kills} kills`);
    assert.ok(longest < 2000, `a caller waited for ${longest} ms`);
    for (const [key, value] of cache.entries('s')) assert.ok(new Set(value).size <= 1, `${key} is torn`);
});
