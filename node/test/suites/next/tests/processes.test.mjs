import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

let counter;
const counts = new Map();
const processes = [];
const sites = [];

/** Starts the application, and returns its address. */
async function start() {
    const site = spawn(process.execPath, ['node_modules/next/dist/bin/next', 'start', '-p', '0'], {
        env: { ...process.env, COUNTER: `http://127.0.0.1:${counter.address().port}` },
        stdio: ['ignore', 'pipe', 'inherit'],
    });
    processes.push(site);
    site.stdout.setEncoding('utf8');
    let output = '';
    const address = new Promise((resolve) => {
        site.stdout.on('data', (part) => {
            output += part;
            const [, port] = /http:\/\/localhost:(\d+)/.exec(output) ?? [];
            if (port !== undefined) resolve(`http://127.0.0.1:${port}`);
        });
    });
    const ended = once(site, 'exit').then(() => {
        throw new Error(`the application has ended: ${output}`);
    });
    ended.catch(() => {});
    return Promise.race([address, ended]);
}

/** Returns what a page shows. */
async function page(site, path) {
    const response = await fetch(site + path);
    const text = await response.text();
    assert.equal(response.status, 200, text);
    const [, first, second] = /\[rendered=(\S+) (?:fetched|loaded)=([^\]]+)\]/.exec(text);
    return { rendered: first, value: second };
}

async function invalidate(site, query) {
    const response = await fetch(`${site}/api/revalidate?${query}`, { method: 'POST' });
    assert.equal(response.status, 200);
}

before(async () => {
    counter = createServer((request, response) => {
        const count = (counts.get(request.url) ?? 0) + 1;
        counts.set(request.url, count);
        response.end(String(count));
    });
    counter.listen(0, '127.0.0.1');
    await once(counter, 'listening');
    sites.push(await start(), await start());
});

after(async () => {
    for (const site of processes) {
        if (site.exitCode !== null) continue;
        site.kill('SIGKILL');
        await once(site, 'exit');
    }
    counter.close();
});

test('a page is rendered once for both processes', async () => {
    const first = await page(sites[0], '/isr/1');
    const others = await Promise.all([page(sites[1], '/isr/1'), page(sites[0], '/isr/1')]);
    for (const other of others) assert.deepEqual(other, first);
    assert.equal(counts.get('/1'), 1);
});

test('a tag that one process invalidates is invalid in the other one', async () => {
    const before = await page(sites[0], '/isr/2');
    assert.deepEqual(await page(sites[1], '/isr/2'), before);
    await invalidate(sites[1], 'tag=news');
    const after = await page(sites[0], '/isr/2');
    assert.notEqual(after.rendered, before.rendered);
    assert.equal(after.value, '2');
    assert.deepEqual(await page(sites[1], '/isr/2'), after);
});

test('with a profile, processes return the old page until it is refreshed', async () => {
    const before = await page(sites[0], '/isr/3');
    await invalidate(sites[1], 'tag=news&profile=max');
    assert.deepEqual(await page(sites[0], '/isr/3'), before);
    for (let i = 0; ; i++) {
        const now = await page(sites[1], '/isr/3');
        // Both processes have found that the page is old, and one has rendered it.
        assert.ok(i < 100, `the page was not refreshed: ${now.value}, ${now.rendered}`);
        if (now.rendered !== before.rendered && now.value === '2') break;
        await sleep(50);
    }
});

test('a page whose time is over is rendered by one process, and others return it', async () => {
    const before = await page(sites[0], '/short/5');
    await sleep(2100);
    const during = await Promise.all([0, 1, 1, 0].map((site) => page(sites[site], '/short/5')));
    // The last of them may find the new page.
    for (const { value } of during) assert.match(value, /^[12]$/);
    let now = before;
    for (let i = 0; now.value === before.value && i < 20; i++) {
        await sleep(50);
        now = await page(sites[1], '/short/5');
    }
    assert.notEqual(now.rendered, before.rendered);
    assert.equal(now.value, '2');
    assert.equal(counts.get('/5'), 2);
});

test('a result of a function with "use cache" is loaded once for both processes', async () => {
    const first = await page(sites[0], '/use/1');
    const second = await page(sites[1], '/use/1');
    assert.notEqual(second.rendered, first.rendered);
    assert.equal(second.value, first.value);
    await invalidate(sites[1], 'tag=figures');
    const third = await page(sites[0], '/use/1');
    assert.notEqual(third.value, first.value);
    assert.equal((await page(sites[1], '/use/1')).value, third.value);
});

test('a process that is killed leaves its pages to others', async () => {
    const before = await page(sites[0], '/isr/4');
    const site = processes.shift();
    site.kill('SIGKILL');
    await once(site, 'exit');
    sites[0] = await start();
    assert.deepEqual(await page(sites[0], '/isr/4'), before);
});
