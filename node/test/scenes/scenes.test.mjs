// Plays the scenes of conformance/api/cases.json on a cache in the process and on one in a file.
// The README of that folder describes the fields of a step. Values are bytes.
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';

import { Cache } from 'larder-cache';

const cases = new URL('../../../conformance/api/cases.json', import.meta.url);
// JSON.parse would round the numbers of 64 bits.
const text = readFileSync(cases, 'utf8').replace(/(?<=[:\s])-?\d{16,}(?=[,\s}])/g, '"$&n"');
const isLong = (value) => typeof value === 'string' && /^-?\d{16,}n$/.test(value);
const scenes = JSON.parse(text, (_, value) => (isLong(value) ? BigInt(value.slice(0, -1)) : value));
const folder = mkdtempSync(join(tmpdir(), 'larder-scenes-'));
after(() => rmSync(folder, { recursive: true, force: true }));

const NO_TIER = 'a Cache has no disk tier';
const NO_FLAGS = 'a Cache sets the flags itself: they contain the type of the value';
const TEXT_COUNTS = 'a number that is stored as text is a counter too, as in memcached';

/** The names of the scenes for errors. */
const OUTCOMES = {
    ERR_LARDER_ARGUMENT: 'key',
    ERR_LARDER_NO_CAS: 'no_tokens',
    ERR_LARDER_NOT_A_NUMBER: 'not_a_number',
    ERR_LARDER_STORE: 'no_memory',
    ERR_LARDER_TOO_LARGE: 'too_large',
};

/** Returns the reason to skip a scene; undefined if it is played. */
function whyNot(scene) {
    if ('tier' in scene) return NO_TIER;
    const hasFlags = scene.steps.some((step) => 'flags' in step || 'all_flags' in step);
    return hasFlags ? NO_FLAGS : undefined;
}

const keyOf = (step) => (step.key ?? '').repeat(step.times ?? 1);
const valueOf = (step) => Buffer.from((step.value ?? '').repeat(step.value_times ?? 1));
const ttlOf = (step) => (step.ttl ? step.ttl * 1000 : undefined);

/** Returns the stored bytes of a value; a counter is stored as its digits. */
function bytesOf(value) {
    return typeof value === 'number' || typeof value === 'bigint' ? Buffer.from(String(value)) : value;
}

/** The operations of the scenes. Each plays a step on a cache, and returns its outcome. */
const operations = {
    get(cache, step) {
        const key = keyOf(step);
        // The scenes expect a miss for a key that is too long; a Cache refuses it.
        if (Buffer.byteLength(key) > 250) return refused(() => cache.get(key));
        const value = cache.get(key);
        if (value === undefined) return 'missing';
        assert.deepEqual(bytesOf(value), valueOf(step));
        if ('ttl' in step) {
            const [ttl, left] = [step.ttl * 1000, cache.ttlOf(key)];
            if (ttl === 0) assert.equal(left, Infinity);
            else assert.ok(ttl - 2000 <= left && left <= ttl, `${left} of ${ttl} ms are left`);
        }
        return 'ok';
    },
    set(cache, step) {
        cache.set(keyOf(step), valueOf(step), ttlOf(step));
        return 'ok';
    },
    add: (cache, step) => (cache.add(keyOf(step), valueOf(step), ttlOf(step)) ? 'ok' : 'exists'),
    replace: (cache, step) => (cache.replace(keyOf(step), valueOf(step), ttlOf(step)) ? 'ok' : 'missing'),
    append: (cache, step) => (cache.append(keyOf(step), valueOf(step)) ? 'ok' : 'missing'),
    prepend: (cache, step) => (cache.prepend(keyOf(step), valueOf(step)) ? 'ok' : 'missing'),
    swap(cache, step) {
        const key = keyOf(step);
        const token = (cache.getWithToken(key)?.token ?? 0n) + (step.token === 'other' ? 12_345n : 0n);
        const stored = cache.compareAndSet(key, valueOf(step), token, ttlOf(step));
        if (stored === undefined) return 'missing';
        return stored ? 'ok' : 'changed';
    },
    delete(cache, step) {
        const key = keyOf(step);
        if (key === '') return refused(() => cache.delete(key));
        return cache.delete(key) ? 'ok' : 'missing';
    },
    touch: (cache, step) => (cache.touch(keyOf(step), ttlOf(step)) ? 'ok' : 'missing'),
    increment: (cache, step) => counted(step, cache.increment(keyOf(step), step.delta, { initial: null })),
    decrement: (cache, step) => counted(step, cache.decrement(keyOf(step), step.delta, { initial: null })),
    get_many(cache, step) {
        const found = cache.getMany(step.keys.filter((key) => key !== ''));
        if (step.keys.includes('')) refused(() => cache.getMany(step.keys));
        const values = step.values.map((value) => (value === null ? undefined : Buffer.from(value)));
        assert.deepEqual(step.keys.map((key) => found.get(key)), values);
        assert.ok(![...found.values()].includes(undefined));
        return 'ok';
    },
    keys(cache, step) {
        assert.deepEqual([...cache.keys(step.prefix)].sort(), step.keys);
        return 'ok';
    },
    remove_prefix(cache, step) {
        assert.equal(cache.removePrefix(step.prefix), step.number);
        return 'ok';
    },
    clear(cache) {
        cache.clear();
        return 'ok';
    },
    length(cache, step) {
        assert.equal(cache.size, step.number);
        return 'ok';
    },
    add_signed(cache, step) {
        const number = cache.increment(keyOf(step), Number(step.by), { ttl: ttlOf(step) });
        assert.equal(BigInt(number), BigInt(step.signed));
        return 'ok';
    },
    cas_signed(cache, step) {
        // A Cache has no such method; its compareAndSet is for all values.
        const found = cache.getWithToken(keyOf(step));
        if (found === undefined) return 'missing';
        if (typeof found.value !== 'number' && typeof found.value !== 'bigint') return 'not_a_number';
        if (BigInt(found.value) !== BigInt(step.old)) return 'changed';
        assert.ok(cache.compareAndSet(keyOf(step), step.new, found.token, cache.ttlOf(keyOf(step))));
        return 'ok';
    },
    lease(cache, step, stage) {
        const lease = cache.lease(keyOf(step), step.ms);
        if (lease === undefined) return 'busy';
        // A lease ends with its object, so all are kept.
        stage.leases.push(lease);
        return 'ok';
    },
    release: (cache, step, stage) => (stage.leases.at(-1).release() ? 'ok' : 'missing'),
    reports(cache, step) {
        // A Cache has no walk that returns only the sizes.
        const sizes = new Map([...cache.entries(step.prefix)].map(([key, value]) => [key, value.length]));
        assert.deepEqual(sizes, new Map(step.keys.map((key, index) => [key, step.sizes[index]])));
        return 'ok';
    },
};

function counted(step, number) {
    if (number === undefined) return 'missing';
    assert.equal(BigInt(number), BigInt(step.number));
    return 'ok';
}

/** A lookup of a key that no item can have: the scenes call its outcome missing. */
function refused(lookup) {
    assert.throws(lookup, { code: 'ERR_LARDER_ARGUMENT' });
    return 'missing';
}

function play(cache, step, stage) {
    try {
        return operations[step.op](cache, step, stage);
    } catch (error) {
        if (!(error.code in OUTCOMES)) throw error;
        if (OUTCOMES[error.code] === 'key') assert.match(error.message, /a key has 1 to 250 bytes/);
        return OUTCOMES[error.code];
    }
}

function playScene(scene, shared) {
    const cas = Boolean(scene.cas) || scene.steps.some((step) => step.op === 'cas_signed');
    const cache = new Cache({ memory: '8M', cas, ...(shared && { shared }) });
    const stage = { leases: [] };
    for (const [number, step] of scene.steps.entries()) {
        const where = `step ${number} of ${scene.name}: ${JSON.stringify(step, (_, value) => (typeof value === 'bigint' ? String(value) : value))}`;
        if (step.op === 'add_signed' && step.key === 'text') {
            assert.equal(cache.increment('text'), 8, TEXT_COUNTS);
            continue;
        }
        try {
            assert.equal(play(cache, step, stage), step.want, where);
        } catch (error) {
            throw new Error(`${where}: ${error.message}`, { cause: error });
        }
    }
    cache.close();
}

for (const [number, scene] of scenes.entries()) {
    // The last test counts the scenes that are not played.
    if (whyNot(scene)) continue;
    test(scene.name, () => playScene(scene));
    test(`${scene.name}, in a file`, () => playScene(scene, join(folder, `${number}.larder`)));
}

test('the scenes that are not played are known, with their reasons', () => {
    const reasons = scenes.map(whyNot).filter((reason) => reason !== undefined);
    assert.deepEqual(reasons, [NO_TIER, NO_TIER, NO_TIER, NO_TIER, NO_FLAGS]);
    assert.ok(scenes.length - reasons.length >= 16);
});
