// A cache in a file: several handles, replaced files, and files that cannot be used.
import assert from 'node:assert/strict';
import {
    chmodSync, mkdirSync, readFileSync, renameSync, statSync, truncateSync, unlinkSync, writeFileSync,
} from 'node:fs';
import { join, relative } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { Cache } from 'larder-cache';

import { message, newPath, node, refuses, thread, until, warningsOf } from './support.mjs';

function cacheIn(path, options) {
    return new Cache({ memory: '16M', shared: path, ...options });
}

test('two handles share a file', () => {
    const path = newPath();
    const [one, other] = [cacheIn(path), cacheIn(relative(process.cwd(), path))];
    one.set('k', { a: 1 });
    assert.deepEqual(other.get('k'), { a: 1 });
    assert.equal(other.increment('n'), 1);
    assert.equal(one.increment('n'), 2);
    assert.equal(one.path, path);
    assert.equal(other.path, path);
    assert.equal(statSync(path).mode & 0o777, 0o600);
    one.close();
    assert.equal(other.get('n'), 2);
});

test('a later process finds the items, and uses the settings of the file', async () => {
    const path = newPath();
    const first = node("new Cache({ shared: path, cas: false, memory: '16M' }).set('k', 'kept'); input.close();", path);
    assert.equal(await first.end(), 0, first.errors);
    const cache = cacheIn(path, { memory: '64M', cas: true });
    assert.equal(cache.get('k'), 'kept');
    assert.equal(cache.hasTokens, false);
    assert.ok(cache.memoryUsage().limit <= 16 << 20);
});

test('many handles of a process count once', () => {
    const path = newPath();
    const handles = Array.from({ length: 300 }, () => cacheIn(path, { processes: 2 }));
    for (const [number, handle] of handles.entries()) handle.set('k', number);
    for (const handle of handles.slice(1)) handle.close();
    assert.equal(handles[0].get('k'), 299);
});

test('threads of a process share a file', async () => {
    const cache = cacheIn(newPath(), { processes: 1 });
    const script = `
        const cache = new Cache({ shared: workerData });
        cache.set('k', [1, { a: 2 }]);
        port.postMessage(cache.increment('n'));`;
    for (const number of [1, 2]) assert.equal(await message(thread(script, cache.path)), number);
    assert.deepEqual(cache.get('k'), [1, { a: 2 }]);
});

test('a file that was removed stays in use until another one replaces it', async () => {
    const old = cacheIn(newPath()).set('k', 'old');
    unlinkSync(old.path);
    await sleep(1100);
    assert.equal(old.get('k'), 'old');
    const next = cacheIn(old.path);
    assert.equal(next.has('k'), false);
    next.set('k', 'new');
    await until(() => old.get('k') === 'new', 'the change to the new file');
    old.set('back', 1);
    assert.equal(next.get('back'), 1);
});

test('a file that is replaced by something else stays in use, with a warning', async () => {
    const cache = cacheIn(newPath()).set('k', 'v');
    const letter = 'This is a letter, not a cache. '.repeat(1000);
    writeFileSync(`${cache.path}.other`, letter);
    renameSync(`${cache.path}.other`, cache.path);
    await sleep(1100);
    const warnings = await warningsOf(() => assert.equal(cache.get('k'), 'v'));
    assert.equal(warnings[0].name, 'LarderWarning');
    assert.match(warnings[0].message, /was replaced, but the new file cannot be used, so the old one stays/);
    assert.equal(readFileSync(cache.path, 'utf8'), letter, 'a foreign file is never changed');
    cache.set('k', 'still used');
    assert.equal(cache.get('k'), 'still used');
});

test('a program may replace the function that emits warnings by one that throws', async () => {
    const cache = cacheIn(newPath()).set('k', 'v');
    writeFileSync(`${cache.path}.other`, 'x'.repeat(10_000));
    renameSync(`${cache.path}.other`, cache.path);
    await sleep(1100);
    const { emitWarning } = process;
    process.emitWarning = () => { throw new Error('a warning'); };
    try {
        // The operation succeeds or throws that error.
        assert.equal(cache.get('k'), 'v');
    } catch (error) {
        assert.equal(error.message, 'a warning');
    } finally {
        process.emitWarning = emitWarning;
    }
    assert.equal(cache.get('k'), 'v');
});

test('paths that are no cache are refused with their name', () => {
    const [text, folder, short, other] = [newPath(), newPath(), newPath(), newPath()];
    writeFileSync(text, 'x'.repeat(100_000), { mode: 0o600 });
    mkdirSync(folder);
    writeFileSync(short, 'x', { mode: 0o600 });
    // The header of a cache, of another version: the version follows the magic bytes.
    cacheIn(other).close();
    const header = readFileSync(other).subarray(0, 4096);
    header.fill(0x7f, 8, 12);
    writeFileSync(other, Buffer.concat([header, Buffer.alloc(100_000)]));
    for (const path of [text, folder, join(text, 'x'), join(newPath(), 'absent', 'x'), '/proc/cache']) {
        refuses('ERR_LARDER_OPEN', () => cacheIn(path), new RegExp(path.replaceAll('/', '\\/')));
    }
    for (const path of [short, other]) {
        try {
            cacheIn(path).close();
        } catch (error) {
            assert.equal(error.code, 'ERR_LARDER_OPEN');
            assert.ok(error.message.includes(path), error.message);
        }
    }
    refuses('ERR_LARDER_OPEN', () => cacheIn(join(newPath(), 'x')), /No such file/);
    assert.equal(readFileSync(text, 'utf8'), 'x'.repeat(100_000));
});

test('a file that others can write to is refused', () => {
    const path = newPath();
    cacheIn(path).close();
    chmodSync(path, 0o666);
    refuses('ERR_LARDER_UNTRUSTED', () => cacheIn(path), /can end the processes that use it.*permissions: 0o660/);
    refuses('ERR_LARDER_UNTRUSTED', () => cacheIn(path, { permissions: 0o660 }));
    cacheIn(path, { permissions: 0o666 }).close();
    const group = newPath();
    cacheIn(group, { permissions: 0o660 }).close();
    assert.equal(statSync(group).mode & 0o777, 0o660);
});

test('more processes than the file allows only read, and join later', async () => {
    const cache = cacheIn(newPath(), { processes: 2 }).set('before', 'read');
    const script = `
        process.on('warning', ({ name, message }) => console.error(name, message));
        const cache = new Cache({ shared: path });
        for await (const _ of input) {
            try {
                cache.set('k', 1);
                say('stores');
            } catch (error) {
                say([cache.get('before'), error.code, error.message]);
            }
        }`;
    const first = node(script, cache.path);
    assert.equal(await first.ask('store'), 'stores');
    const second = node(script, cache.path);
    const [value, code, text] = JSON.parse(await second.ask('store'));
    assert.deepEqual([value, code], ['read', 'ERR_LARDER_STORE']);
    assert.match(text, /can only read the cache: too many processes/);
    assert.match(second.errors, /LarderWarning too many processes use the cache/);
    await first.kill();
    const ends = Date.now() + 10_000;
    while ((await second.ask('store')) !== 'stores') {
        assert.ok(Date.now() < ends, 'the process does not join after another one has left');
        await sleep(100);
    }
    assert.equal(await second.end(), 0);
});

test('processes that open a new file together share it', async () => {
    const path = newPath();
    const script = `
        for await (const _ of input) {
            const cache = new Cache({ shared: path, memory: '16M' });
            say(cache.increment('n'));
        }`;
    const programs = [1, 2, 3, 4].map(() => node(script, path));
    const numbers = await Promise.all(programs.map((program) => program.ask('open')));
    assert.deepEqual(numbers.sort(), ['1', '2', '3', '4']);
    for (const program of programs) assert.equal(await program.end(), 0);
});

test('a file that is cut is no longer used by a new handle', async () => {
    const path = newPath();
    const program = node("new Cache({ shared: path, memory: '16M' }).set('k', 1); input.close();", path);
    assert.equal(await program.end(), 0);
    truncateSync(path, 8192);
    try {
        assert.equal(cacheIn(path).get('k'), undefined);
    } catch (error) {
        assert.equal(error.code, 'ERR_LARDER_OPEN');
    }
});
