// The examples of Express and Fastify, run as they are, with four workers.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { Agent, get } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

import { Cache } from 'larder-cache';

const root = fileURLToPath(new URL('../../..', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'larder-cluster-'));
const python = existsSync(join(root, 'python/larder_cache/_larder.abi3.so'));
const nodeMajor = Number(process.versions.node.split('.')[0]);
const programs = [];

after(async () => {
    for (const program of programs) {
        if (program.exitCode !== null || program.signalCode !== null) continue;
        program.kill('SIGTERM');
        await once(program, 'exit');
    }
    rmSync(folder, { recursive: true, force: true });
});

/** Starts an example, and returns its process, its address and its cache. */
async function start(name) {
    const shared = join(folder, `${name}-${programs.length}.larder`);
    const program = spawn(process.execPath, [join(root, 'node/examples', name, 'server.mjs')], {
        env: { ...process.env, PORT: '0', CACHE: shared },
        stdio: ['ignore', 'pipe', 'inherit'],
    });
    programs.push(program);
    program.stdout.setEncoding('utf8');
    const [line] = await once(program.stdout, 'data');
    const cache = new Cache({ shared });
    return { program, site: line.trim(), cache };
}

/** Requests a page over a connection of its own. */
function request(url) {
    return new Promise((resolve, reject) => {
        const answer = get(url, { agent: new Agent({ keepAlive: false }) }, (response) => {
            let text = '';
            response.setEncoding('utf8');
            response.on('data', (part) => (text += part));
            response.on('error', reject);
            response.on('end', () => resolve({ status: response.statusCode, text }));
        });
        answer.on('error', reject);
        answer.setTimeout(20_000, () => answer.destroy(new Error(`no response: ${url}`)));
    });
}

async function users(site, id, count) {
    const answers = await Promise.all(
        Array.from({ length: count }, () => request(`${site}/users/${id}`)),
    );
    for (const { status } of answers) assert.equal(status, 200);
    return answers.map(({ text }) => JSON.parse(text));
}

/** Waits until all workers listen: the first requests else meet only some of them. */
async function allWorkers(site) {
    const pids = new Set();
    for (let i = 0; i < 500 && pids.size < 4; i++) {
        const { text } = await request(site);
        pids.add(/^worker (\d+)/.exec(text)[1]);
        await sleep(10);
    }
    assert.equal(pids.size, 4);
}

for (const name of ['express', 'fastify']) {
    const isTooOld = name === 'fastify' && nodeMajor < 20;
    const options = { skip: isTooOld && 'Fastify 5 needs Node 20', timeout: 60_000 };

    test(`200 requests to four workers of ${name} run one slow query`, options, async () => {
        const { site, cache, program } = await start(name);
        await allWorkers(site);
        const answers = await users(site, 17, 200);
        assert.equal(cache.get('queries'), 1);
        assert.equal(new Set(answers.map(({ loader }) => loader)).size, 1);
        assert.equal(new Set(answers.map(({ worker }) => worker)).size, 4);
        const { text } = await request(site);
        assert.match(text, /^worker \d+: [1-9]\d* hits, \d+ misses, 1 slow queries\n$/);
        program.kill('SIGTERM');
        const [code] = await once(program, 'exit');
        assert.equal(code, 0);
    });
}

test('after SIGKILL of the worker that loads, another one loads', { timeout: 60_000 }, async () => {
    const { site, cache } = await start('express');
    await allWorkers(site);
    const begin = Date.now();
    const answers = Array.from({ length: 80 }, () => request(`${site}/users/18`));
    const settled = Promise.allSettled(answers);
    while (cache.get('loader:18') === undefined) await sleep(5);
    // By now the workers have all connections. Node keeps those open that a killed worker has not
    // confirmed, and their clients wait.
    await sleep(200);
    const loader = cache.get('loader:18');
    process.kill(loader, 'SIGKILL');
    const results = await settled;
    const millis = Date.now() - begin;
    const failed = results.filter(({ status }) => status === 'rejected').length;
    // Connections end with their worker: about a quarter of them, more if it was faster than others.
    assert.ok(failed > 0 && failed < 80, `${failed} requests have failed`);
    for (const { status, value } of results) {
        if (status === 'rejected') continue;
        assert.equal(value.status, 200);
        assert.notEqual(JSON.parse(value.text).loader, loader);
    }
    assert.equal(cache.get('queries'), 2);
    // The lease of the killed worker would end after 30 seconds.
    assert.ok(millis < 15_000, `${millis} ms`);
});

const PROGRAM = `
import sys
from larder_cache import Cache
cache = Cache(shared=sys.argv[1], serializer="json")
assert cache["user:19"]["name"] == "User 19", cache["user:19"]
cache.set("user:20", {"id": "20", "name": "Grace", "tags": ["é", None, 1.5]}, ttl=60)
cache.set("queries", cache["queries"] + 10)
`;

test(
    'a program in Python reads and writes the items of the workers',
    { skip: !python && 'the package of Python is not built', timeout: 60_000 },
    async () => {
        const { site, cache } = await start('express');
        await users(site, 19, 8);
        const { status, stderr } = spawnSync('python3', ['-c', PROGRAM, cache.path], {
            env: { ...process.env, PYTHONPATH: join(root, 'python') },
            encoding: 'utf8',
        });
        assert.equal(status, 0, stderr);
        const [user] = await users(site, 20, 1);
        assert.equal(user.name, 'Grace');
        assert.deepEqual(user.tags, ['é', null, 1.5]);
        assert.equal(cache.get('queries'), 11);
    },
);
