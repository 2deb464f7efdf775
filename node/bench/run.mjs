// Compares caches of Node, and draws docs/images/node.svg: `run.mjs [--rounds N] [--only NAME…]
// [--dry] [--draw]`. `make bench NAME=node` builds what it needs and runs it.
//
// Each round runs each cache in a new process, so that a ratio compares runs that are close in time.
// A figure is the median over all rounds; a ratio is the median of the ratios within a round. The
// figures are saved in docs/images/node.json, from which `--draw` makes the picture again.
// load.mjs describes a pass, and caches.mjs the caches.

import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

import { CACHES } from './caches.mjs';
import { drawn } from './picture.mjs';
import { tablesOf } from './tables.mjs';

const HERE = fileURLToPath(new URL('.', import.meta.url));
const IMAGES = join(HERE, '../../docs/images');
const RUNS = ['floor', ...Object.keys(CACHES)];

async function freePort() {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address();
    server.close();
    await once(server, 'close');
    return port;
}

/** Starts a server, and returns its process once it accepts connections at the port. */
async function started(program, options, port) {
    const user = process.getuid() === 0 ? ['-u', 'root'] : [];
    const server = spawn(program, [...options, ...user, '-m', '1024', '-t', '2'], {
        stdio: ['ignore', 'ignore', 'inherit'],
    });
    for (let attempt = 0; attempt < 500; attempt++) {
        const socket = connect(port, '127.0.0.1');
        const accepted = await once(socket, 'connect').then(() => true, () => false);
        socket.destroy();
        if (accepted) return server;
        if (server.exitCode !== null) break;
        await sleep(20);
    }
    throw new Error(`${program} does not accept connections`);
}

/** Runs the loads on one cache in a new process. */
function run(name, settings) {
    const load = [join(HERE, 'load.mjs'), name, JSON.stringify(settings)];
    return JSON.parse(execFileSync(process.execPath, load, { stdio: ['ignore', 'pipe', 'inherit'] }));
}

/** Returns the figures of all rounds, by cache and load. */
async function measured(rounds, only) {
    const folder = mkdtempSync(join(tmpdir(), 'bench-node-'));
    const memory = mkdtempSync('/dev/shm/bench-node-');
    const larderd = join(folder, 'larderd.sock');
    const larderdPort = await freePort();
    const memcachedPort = await freePort();
    const listen = `127.0.0.1:${larderdPort},unix[readers]:${larderd}`;
    const servers = [
        await started(process.env.LARDERD, ['-U', '0', '-l', listen], larderdPort),
        await started(
            process.env.MEMCACHED,
            ['-U', '0', '-l', '127.0.0.1', '-p', String(memcachedPort)],
            memcachedPort,
        ),
    ];
    const settings = { folder, memory, larderd, larderdPort, memcachedPort, floor: process.env.FLOOR };
    const results = [];
    try {
        for (let round = 0; round < rounds; round++) {
            results.push({});
            for (const name of only) {
                process.stderr.write(`round ${round + 1} of ${rounds}: ${name.padEnd(30)}\r`);
                results[round][name] = run(name, settings);
            }
        }
    } finally {
        process.stderr.write(`${' '.repeat(60)}\r`);
        for (const server of servers) {
            server.kill();
            await once(server, 'exit');
        }
        for (const made of [folder, memory]) rmSync(made, { recursive: true });
    }
    return results;
}

/** Returns the versions of Node, of each cache and of the servers. */
function versions() {
    const installed = JSON.parse(readFileSync(join(HERE, 'package.json'), 'utf8')).dependencies;
    const packages = Object.entries(installed).map(([name, version]) => `${name} ${version}`);
    const servers = [
        execFileSync(process.env.LARDERD, ['--version'], { encoding: 'utf8' }),
        execFileSync(process.env.MEMCACHED, ['-V'], { encoding: 'utf8' }),
    ];
    return [`Node ${process.versions.node}`, ...packages, ...servers.map((text) => text.trim())].join(', ');
}

const { values: options, positionals } = parseArgs({
    options: {
        rounds: { type: 'string', default: '5' },
        only: { type: 'string', multiple: true, default: RUNS },
        dry: { type: 'boolean', default: false },
        draw: { type: 'boolean', default: false },
        help: { type: 'boolean', short: 'h', default: false },
    },
    allowPositionals: true,
});
const unknown = [...positionals, ...options.only.filter((name) => !RUNS.includes(name))];
if (options.help || unknown.length > 0 || !(Number(options.rounds) > 0)) {
    console.log(
        'run.mjs: compares caches of Node\n\n' +
            '  --rounds N   rounds of about a minute [5]\n' +
            `  --only NAME  this run only; may be repeated: ${RUNS.join('; ')}\n` +
            '  --dry        only prints the figures\n' +
            '  --draw       only prints and draws the saved figures',
    );
    process.exit(options.help ? 0 : 2);
}
const figures = join(IMAGES, 'node.json');
if (!options.draw) {
    console.log(`${versions()}\n`);
    const rounds = await measured(Number(options.rounds), options.only);
    if (options.dry || options.only.length < RUNS.length) {
        console.log(tablesOf(rounds));
        process.exit();
    }
    const date = new Date().toISOString().slice(0, 10);
    const saved = { command: 'make bench NAME=node', date, versions: versions(), rounds };
    writeFileSync(figures, `${JSON.stringify(saved, null, 1)}\n`);
}
const { rounds } = JSON.parse(readFileSync(figures, 'utf8'));
console.log(tablesOf(rounds));
writeFileSync(join(IMAGES, 'node.svg'), drawn(rounds));
