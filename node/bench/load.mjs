// Runs the loads on one cache in this process, and prints their times as one line of JSON:
// `load.mjs CACHE SETTINGS`, where CACHE is a key of caches.mjs, or `floor`. run.mjs starts it.
//
// A time is nanoseconds per operation, and includes the loop around it. A pass is a loop over all
// keys in a random order, in batches. The result is the sum of the median times of each batch in
// all passes. All values are compared once, before the first pass.

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';

import { CACHES } from './caches.mjs';

const KEYS = 100_000;
const LONG_KEYS = 10_000;
const REMOTE_KEYS = 10_000;
const PASSES = 5;
const BATCH = 1000;
const AT_ONCE = 64;

let sink;

const keyOf = (number) => `user:${String(number).padStart(7, '0')}`;

function valueOf(number, length, text) {
    const value = `value ${String(number).padStart(7, '0')} `.repeat(length / 14 + 1).slice(0, length);
    return text ? value : Buffer.from(value);
}

/** Returns the numbers below `count` in an order that is random, and the same in each process. */
function shuffled(count) {
    const order = Uint32Array.from({ length: count }, (_, number) => number);
    let state = 1;
    for (let last = count - 1; last > 0; last--) {
        state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
        const other = state % (last + 1);
        [order[last], order[other]] = [order[other], order[last]];
    }
    return order;
}

/** Returns keys that are in memory in the order of the array, as keys that were just made. */
const made = (order) => Array.from(order, keyOf);

const nanos = () => Number(process.hrtime.bigint());

function median(numbers) {
    return numbers.sort((a, b) => a - b)[numbers.length >> 1];
}

/** Returns the time of each of `count` operations: the sum of the medians of all batches. */
async function timed(count, run) {
    const batches = Array.from({ length: Math.ceil(count / BATCH) }, () => []);
    for (let pass = 0; pass < PASSES; pass++) {
        for (let batch = 0; batch < batches.length; batch++) {
            const end = Math.min(count, (batch + 1) * BATCH);
            const began = nanos();
            const pending = run(batch * BATCH, end);
            if (pending) await pending;
            batches[batch].push(nanos() - began);
        }
    }
    return batches.reduce((sum, times) => sum + median(times), 0) / count;
}

async function fill(contender, cache, count, length) {
    for (let number = 0; number < count; number++) {
        const stored = contender.set(cache, keyOf(number), valueOf(number, length, contender.text));
        if (contender.isRemote) await stored;
    }
    for (let number = 0; number < count; number++) {
        const found = contender.get(cache, keyOf(number));
        const value = contender.isRemote ? await found : found;
        assert.deepEqual(value, valueOf(number, length, contender.text), keyOf(number));
    }
}

async function ofProcess(contender, cache) {
    await fill(contender, cache, KEYS, 100);
    const keys = made(shuffled(KEYS));
    const few = Array.from({ length: KEYS }, (_, at) => keys[at % 1000]);
    const absent = keys.map((key) => `${key}x`);
    const value = valueOf(1, 100, contender.text);
    const gets = (names) => (at, end) => {
        for (; at < end; at++) sink = contender.get(cache, names[at]);
    };
    const sets = (names, value) => (at, end) => {
        for (; at < end; at++) sink = contender.set(cache, names[at], value);
    };
    const times = {
        'get': await timed(KEYS, gets(keys)),
        'get, 1,000 keys': await timed(KEYS, gets(few)),
        'get, absent': await timed(KEYS, gets(absent)),
    };
    if (cache.getMany) {
        times['getMany of 20, each'] = await timed(KEYS, (at, end) => {
            for (; at < end; at += 20) sink = cache.getMany(keys.slice(at, at + 20));
        });
    }
    // The sets come last: they leave the items in the order of the keys, in which they are read.
    times['set'] = await timed(KEYS, sets(keys, value));
    await fill(contender, cache, LONG_KEYS, 10_240);
    const long = made(shuffled(LONG_KEYS));
    times['get 10 KiB'] = await timed(LONG_KEYS, gets(long));
    times['set 10 KiB'] = await timed(LONG_KEYS, sets(long, valueOf(1, 10_240, contender.text)));
    return times;
}

async function ofServer(contender, cache) {
    await fill(contender, cache, REMOTE_KEYS, 100);
    const keys = made(shuffled(REMOTE_KEYS));
    const value = valueOf(1, 100);
    const times = {
        'get': await timed(REMOTE_KEYS, async (at, end) => {
            for (; at < end; at++) sink = await contender.get(cache, keys[at]);
        }),
        'get, 64 together': await timed(REMOTE_KEYS, async (at, end) => {
            for (; at < end; at += AT_ONCE) {
                const part = keys.slice(at, Math.min(end, at + AT_ONCE));
                sink = await Promise.all(part.map((key) => contender.get(cache, key)));
            }
        }),
        'set': await timed(REMOTE_KEYS, async (at, end) => {
            for (; at < end; at++) sink = await contender.set(cache, keys[at], value);
        }),
    };
    if (cache.getMany) {
        times['getMany of 20, each'] = await timed(REMOTE_KEYS, async (at, end) => {
            for (; at < end; at += 20) sink = await cache.getMany(keys.slice(at, at + 20));
        });
    }
    return times;
}

/** Times that no cache outside of JavaScript's heap can beat. FLOOR is src/floor.rs, built. */
async function ofFloor(settings) {
    const floor = createRequire(import.meta.url)(settings.floor);
    const { nothing, buffer } = floor.floor();
    const keys = made(shuffled(KEYS));
    const loop = (call) => (at, end) => {
        for (; at < end; at++) sink = call(keys[at]);
    };
    return {
        'empty loop': await timed(KEYS, loop((key) => key)),
        'empty native call': await timed(KEYS, loop((key) => nothing(key))),
        'new Buffer of 100 bytes': await timed(KEYS, loop((key) => buffer(key))),
    };
}

const [name, settingsText] = process.argv.slice(2);
const settings = JSON.parse(settingsText);
if (name === 'floor') {
    console.log(JSON.stringify(await ofFloor(settings)));
} else {
    const contender = CACHES[name];
    const cache = contender.open(settings);
    const times = await (contender.isRemote ? ofServer : ofProcess)(contender, cache);
    await contender.close(cache);
    console.log(JSON.stringify(times));
}
process.exit(sink === settings ? 1 : 0);
