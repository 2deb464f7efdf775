// The memory and the descriptors of a process stay constant over many operations.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';

import { newPath, root } from './support.mjs';

// `growth` returns how many KiB an operation adds to the memory in a round of `times` calls.
const PRELUDE = `
import { readdirSync, readFileSync } from 'node:fs';
import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises';
import { Cache } from 'larder-cache';
const path = process.argv.at(-1);

/** Lets finalizers run, which need turns of the event loop. */
async function collect() {
    for (let round = 0; round < 3; round += 1) {
        globalThis.gc();
        await turn();
    }
}
async function growth(operation, times) {
    let before, grown;
    // The engine's own memory grows in early rounds, in newer versions also later. A leak grows in
    // every round.
    for (let round = 0; round < 8; round += 1) {
        for (let number = 0; number < times; number += 1) {
            const result = operation(number);
            if (result !== undefined) await result;
            // Finalizers run in a turn of the event loop.
            if (number % 10_000 === 9_999) await turn();
        }
        await collect();
        const used = process.memoryUsage();
        const kib = (name) => Math.round((used[name] - before[name]) / 1024);
        if (before) grown = { rss: kib('rss'), heap: kib('heapUsed'), arrays: kib('arrayBuffers') };
        if (round > 1 && grown.rss < 6000 && grown.heap < 500 && grown.arrays < 500) break;
        before = used;
    }
    return grown;
}
function fails(operation) {
    try { operation(); } catch { return; }
    throw new Error('the operation has not failed');
}
`;

function run(script) {
    const text = PRELUDE + script;
    const { status, stdout, stderr } = spawnSync(
        process.execPath,
        ['--expose-gc', '--input-type=module', '-e', text, newPath()],
        { cwd: `${root}/node`, encoding: 'utf8', timeout: 120_000 },
    );
    assert.equal(status, 0, stderr);
    return JSON.parse(stdout);
}

function isConstant({ rss, heap, arrays }) {
    assert.ok(heap < 500 && arrays < 500 && rss < 6000, JSON.stringify({ rss, heap, arrays }));
}

test('reads, writes and refused operations do not leak', () => {
    isConstant(run(`
        const cache = new Cache({ memory: '4M' });
        const bytes = Buffer.alloc(1000);
        const long = Buffer.alloc(20_000);
        const key = Buffer.from('key');
        console.log(JSON.stringify(await growth((number) => {
            const name = 'k' + (number % 100);
            cache.set(name, bytes).get(name);
            cache.set(key, 'x'.repeat(100)).get(key);
            cache.increment('n');
            const { token } = cache.getWithToken(name);
            cache.compareAndSet(name, number, token);
            if (number % 10 > 0) return;
            cache.set(name, { a: [number] }).get(name);
            cache.getMany([name, 'absent', key]);
            cache.set('long', long).pop('long');
            cache.set('text', 'ü'.repeat(5000)).get('text');
            fails(() => cache.get('k'.repeat(300)));
            fails(() => cache.set('', 1));
            fails(() => cache.increment(name));
            fails(() => cache.set('k', () => 1));
        }, 200_000)));`));
});

test('loads that succeed and fail do not leak', () => {
    isConstant(run(`
        const cache = new Cache({ memory: '4M', shared: path });
        const { signal } = new AbortController();
        console.log(JSON.stringify(await growth(async (number) => {
            await cache.wrap('k' + (number % 5000), 1000, () => number, { signal });
            cache.delete('k' + (number % 5000));
            if (number % 10 > 0) return;
            await cache.wrap('failing', 1000, () => { throw new Error('x'.repeat(1000)); }).catch(() => 0);
            const controller = new AbortController();
            const load = cache.wrap('aborted', 1000, () => new Promise(() => {}), { signal: controller.signal });
            controller.abort();
            await load.catch(() => 0);
        }, 30_000)));`));
});

test('walks and leases do not leak', () => {
    isConstant(run(`
        const cache = new Cache({ memory: '4M' });
        for (let number = 0; number < 500; number += 1) cache.set('k' + number, number);
        console.log(JSON.stringify(await growth((number) => {
            const walk = cache.entries();
            for (let count = number % 10; count > 0; count -= 1) walk.next();
            if (number % 2) walk.return();
            cache.lease('lease' + (number % 10), 1);
            const lease = cache.lease('released', 1000);
            lease?.release();
        }, 40_000)));`));
});

test('closed and dropped caches return their memory and descriptors', () => {
    const { growth, descriptors, maps, kept } = run(`
        const count = (file) => readFileSync(file, 'utf8').split('\\n').length;
        const state = () => ({ descriptors: readdirSync('/proc/self/fd').length, maps: count('/proc/self/maps') });
        const open = (number) => {
            const cache = new Cache({ shared: path, memory: '8M' });
            cache.set('k' + number, Buffer.alloc(100_000)).get('k' + number);
            cache.close();
            const own = new Cache({ memory: '8M' });
            own.set('k', Buffer.alloc(100_000));
            own.close();
            fails(() => new Cache({ shared: '/proc/cache' }));
        };
        open(0);
        await collect();
        const before = state();
        const grown = await growth(open, 350);
        const after = state();
        // A cache that is dropped without close is collected.
        let collected = 0;
        const registry = new FinalizationRegistry(() => { collected += 1; });
        const dropped = 50;
        (() => {
            for (let number = 0; number < dropped; number += 1) {
                const cache = new Cache({ memory: '4M' });
                cache.set('k', 1).get('k');
                registry.register(cache, number);
            }
        })();
        for (let round = 0; round < 100 && collected < dropped; round += 1) {
            await collect();
            await sleep(5);
        }
        await collect();
        console.log(JSON.stringify({
            growth: grown,
            descriptors: after.descriptors - before.descriptors,
            maps: after.maps - before.maps,
            kept: dropped - collected,
        }));`);
    isConstant(growth);
    assert.ok(descriptors <= 0, `${descriptors} more descriptors`);
    assert.ok(maps <= 20, `${maps} more maps`);
    assert.ok(kept <= 1, `${kept} caches were not collected`);
});
