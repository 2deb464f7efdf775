// The store for express-session, in two applications that share a file as two processes do.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';

import express from 'express';
import session from 'express-session';
import { Cache } from 'larder-cache';
import { sessionStore } from 'larder-cache/session';

const folder = mkdtempSync(join(tmpdir(), 'larder-session-'));
const shared = join(folder, 'sessions.larder');
const servers = [];

after(() => {
    for (const server of servers) {
        server.close();
        server.closeAllConnections();
    }
    rmSync(folder, { recursive: true, force: true });
});

async function start(maxAge) {
    const store = sessionStore(session, { shared, memory: '8M' });
    const app = express();
    const cookie = { maxAge };
    app.use(session({ store, secret: 'test', resave: false, saveUninitialized: false, cookie }));
    app.get('/visit', (request, response) => {
        request.session.visits = (request.session.visits ?? 0) + 1;
        response.json(request.session.visits);
    });
    app.get('/look', (request, response) => response.json(request.session.visits ?? 0));
    app.get('/end', (request, response) => request.session.destroy(() => response.json(0)));
    const server = app.listen(0, '127.0.0.1');
    servers.push(server);
    await once(server, 'listening');
    return { site: `http://127.0.0.1:${server.address().port}`, store };
}

async function request(site, path, cookie = '') {
    const response = await fetch(site + path, { headers: { cookie } });
    const [set] = response.headers.getSetCookie?.() ?? [response.headers.get('set-cookie')];
    return { count: await response.json(), cookie: set?.split(';')[0] };
}

/** Calls a method of a store, and returns a promise of its result. */
function call(store, method, ...args) {
    return new Promise((resolve, reject) => {
        store[method](...args, (error, result) => (error ? reject(error) : resolve(result)));
    });
}

test('a session of one process is known in the other one until it is destroyed', async () => {
    const [one, two] = [await start(60_000), await start(60_000)];
    const { count, cookie } = await request(one.site, '/visit');
    assert.equal(count, 1);
    assert.equal((await request(two.site, '/visit', cookie)).count, 2);
    assert.equal((await request(one.site, '/look', cookie)).count, 2);
    assert.equal((await request(two.site, '/look')).count, 0);
    assert.equal(await call(one.store, 'length'), 1);
    const [kept] = Object.values(await call(two.store, 'all'));
    assert.equal(kept.visits, 2);
    await request(two.site, '/end', cookie);
    assert.equal((await request(one.site, '/look', cookie)).count, 0);
});

test('a session lives as long as its cookie, and a request renews it', async () => {
    const { site, store } = await start(60_000);
    const { cookie } = await request(site, '/visit');
    const [key] = store.cache.keys('sess:');
    assert.equal(store.cache.ttlOf(key), 60_000);
    const old = store.cache.get(key);
    const expires = new Date(Date.now() + 5000).toISOString();
    store.cache.set(key, { ...old, cookie: { ...old.cookie, expires } }, 5000);
    await request(site, '/look', cookie);
    assert.equal(store.cache.ttlOf(key), 60_000);
    assert.equal((await request(site, '/look', cookie)).count, 1);
});

test('a touch does not bring a destroyed session back', async () => {
    const store = sessionStore(session);
    const data = { cookie: new session.Cookie(), visits: 1 };
    await call(store, 'set', 'id', data);
    assert.equal(store.cache.ttlOf('sess:id'), 86_400_000);
    await call(store, 'destroy', 'id');
    await call(store, 'touch', 'id', data);
    assert.equal(await call(store, 'get', 'id'), null);
});

test('clear removes sessions, not the other items of a cache', async () => {
    const cache = new Cache();
    cache.set('plain', 1);
    const store = sessionStore(session, { cache, prefix: 'login:' });
    await call(store, 'set', 'x'.repeat(300), { cookie: {} });
    assert.deepEqual(await call(store, 'get', 'x'.repeat(300)), { cookie: {} });
    await call(store, 'clear');
    assert.equal(await call(store, 'length'), 0);
    assert.equal(cache.get('plain'), 1);
});

test('errors are passed to the callback', async () => {
    const store = sessionStore(session);
    store.cache.close();
    await assert.rejects(call(store, 'get', 'id'), { code: 'ERR_LARDER_CLOSED' });
    assert.throws(() => sessionStore({}), /takes the module express-session, found Object/);
});
