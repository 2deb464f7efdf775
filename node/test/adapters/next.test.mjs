// The handlers for Next.js by themselves. test/suites/next.sh runs them in an application.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

import { Cache } from 'larder-cache';
import { cacheHandler, useCacheHandler } from 'larder-cache/next';

const folder = mkdtempSync(join(tmpdir(), 'larder-next-'));
after(() => rmSync(folder, { recursive: true, force: true }));

const page = {
    kind: 'APP_PAGE',
    html: '<p>é</p>',
    rscData: Buffer.from([0, 255]),
    segmentData: new Map([['/_tree', Buffer.from('tree')]]),
    headers: { 'x-next-cache-tags': '_N_T_/news,news' },
    postponed: undefined,
    status: 200,
};

function streamOf(text) {
    return new Blob([text]).stream();
}

function entryOf(text, tags = []) {
    const times = { stale: 300, revalidate: 900, expire: 3600 };
    return Promise.resolve({ value: streamOf(text), tags, timestamp: Date.now(), ...times });
}

async function textOf(entry) {
    return new Response(entry.value).text();
}

test('a page is returned with its buffers and maps', async () => {
    const handler = new (cacheHandler())();
    assert.equal(await handler.get('/news', { kind: 'APP_PAGE' }), null);
    await handler.set('/news', page, { cacheControl: { revalidate: 60, expire: 3600 } });
    const { value, lastModified, cacheControl } = await handler.get('/news', { kind: 'APP_PAGE' });
    assert.deepEqual(value, page);
    assert.ok(Buffer.isBuffer(value.rscData));
    assert.ok(Math.abs(Date.now() - lastModified) < 5000);
    assert.deepEqual(cacheControl, { revalidate: 60, expire: 3600 });
});

test('a tag invalidates the pages that have it, and only older ones', async () => {
    const handler = new (cacheHandler())();
    await handler.set('/news', page);
    await handler.set('/other', { ...page, headers: {} });
    await sleep(5);
    await handler.revalidateTag('news');
    assert.equal(await handler.get('/news'), null);
    assert.notEqual(await handler.get('/other'), null);
    await sleep(5);
    await handler.set('/news', page);
    assert.notEqual(await handler.get('/news'), null);
});

test('results of fetch are invalidated by their tags and those of the page', async () => {
    const handler = new (cacheHandler())();
    const value = { kind: 'FETCH', data: { body: 'e30=' }, revalidate: 60 };
    for (const [key, tag] of [['a', 'own'], ['b', 'other'], ['c', '_N_T_/news']]) {
        await handler.set(key, value, { fetchCache: true, tags: ['own'] });
        assert.notEqual(await handler.get(key, { kind: 'FETCH' }), null);
        await sleep(5);
        await handler.revalidateTag([tag]);
        const context = { kind: 'FETCH', tags: ['own'], softTags: ['_N_T_/news'] };
        const isGone = (await handler.get(key, context)) === null;
        assert.equal(isGone, tag !== 'other', tag);
        await sleep(5);
    }
});

test('a page of one build is no page of another one', async () => {
    const handlers = ['one', 'two'].map((build) => {
        mkdirSync(join(folder, build, 'server'), { recursive: true });
        writeFileSync(join(folder, build, 'BUILD_ID'), `${build}\n`);
        const options = { shared: join(folder, 'builds.larder'), memory: '8M' };
        return new (cacheHandler(options))({ serverDistDir: join(folder, build, 'server') });
    });
    await handlers[0].set('/news', page);
    const data = { kind: 'FETCH', data: { body: 'e30=' }, revalidate: 60 };
    await handlers[0].set('fetched', data, { fetchCache: true });
    assert.notEqual(await handlers[0].get('/news'), null);
    assert.equal(await handlers[1].get('/news'), null);
    assert.notEqual(await handlers[1].get('fetched', { kind: 'FETCH' }), null);
});

test('a page that does not fit removes the older one, and a warning says so', async () => {
    const handler = new (cacheHandler({ memory: '8M', itemMax: 4096 }))();
    await handler.set('/news', page);
    const warning = once(process, 'warning');
    await handler.set('/news', { ...page, html: 'x'.repeat(5000) });
    assert.match((await warning)[0].message, /an entry of Next.js is not cached: /);
    assert.equal(await handler.get('/news'), null);
});

test('if the memory for tags is full, entries are removed, not used after all', async () => {
    const cache = new Cache();
    cache.set('plain', 1);
    const handler = new (cacheHandler({ cache, tagMemory: '1M' }))();
    await handler.set('/news', page);
    for (let i = 0; i < 100_000 && (await handler.get('/news')) !== null; i++) {
        await handler.revalidateTag(`tag ${i} ${'x'.repeat(100)}`);
    }
    assert.equal(await handler.get('/news'), null);
    assert.equal(cache.get('plain'), 1);
    await handler.set('/news', page);
    await sleep(5);
    await handler.revalidateTag('news');
    assert.equal(await handler.get('/news'), null);
});

test('a result of "use cache" can be read many times', async () => {
    const handler = useCacheHandler();
    assert.equal(await handler.get('key', []), undefined);
    await handler.set('key', entryOf('hello'));
    for (let i = 0; i < 2; i++) {
        const entry = await handler.get('key', []);
        assert.equal(await textOf(entry), 'hello');
        assert.equal(entry.revalidate, 900);
    }
});

test('a read waits for a result of "use cache" that is being stored', async () => {
    const handler = useCacheHandler();
    let finish;
    const storing = handler.set('key', new Promise((resolve) => (finish = resolve)));
    const reading = handler.get('key', []);
    finish(await entryOf('hello'));
    assert.equal(await textOf(await reading), 'hello');
    await storing;
});

test('tags end results of "use cache", or mark them as old', async () => {
    const handler = useCacheHandler();
    await handler.set('key', entryOf('hello', ['news']));
    assert.equal(await handler.getExpiration(['news']), 0);
    await sleep(5);
    await handler.updateTags(['news'], { expire: 3600 });
    assert.equal((await handler.get('key', [])).revalidate, -1);
    await handler.updateTags(['news']);
    assert.equal(await handler.get('key', []), undefined);
    assert.ok((await handler.getExpiration(['other', 'news'])) > Date.now() - 5000);
    await handler.set('key', entryOf('hello'));
    await sleep(5);
    await handler.updateTags(['_N_T_/news']);
    assert.equal(await handler.get('key', ['_N_T_/news']), undefined);
});

test('a failed result of "use cache" is not stored', async () => {
    const handler = useCacheHandler();
    const warning = once(process, 'warning');
    await handler.set('key', Promise.reject(new Error('no database')));
    assert.match((await warning)[0].message, /no database/);
    assert.equal(await handler.get('key', []), undefined);
});

test('next build creates no file', () => {
    const shared = join(folder, 'build.larder');
    const program = `
        const { cacheHandler, useCacheHandler } = require('larder-cache/next');
        const handler = new (cacheHandler({ shared: ${JSON.stringify(shared)} }))();
        useCacheHandler({ shared: ${JSON.stringify(shared)} });
        handler.set('/news', { kind: 'APP_PAGE' });
    `;
    const { status, stderr } = spawnSync(process.execPath, ['-e', program], {
        cwd: fileURLToPath(new URL('../..', import.meta.url)),
        env: { ...process.env, NEXT_PHASE: 'phase-production-build' },
        encoding: 'utf8',
    });
    assert.equal(status, 0, stderr);
    assert.equal(existsSync(shared), false);
});
