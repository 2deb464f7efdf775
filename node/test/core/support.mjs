// What the tests of the core share: folders, other processes and threads that use a cache.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { after } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';

export const root = fileURLToPath(new URL('../../..', import.meta.url));
const nodeFolder = join(root, 'node');
// A thread that evaluates text finds no packages by name.
const packagePath = createRequire(import.meta.url).resolve('larder-cache');
const folder = mkdtempSync(join(tmpdir(), 'larder-core-'));
const cleanups = [];
let files = 0;

after(async () => {
    for (const cleanup of cleanups) await cleanup();
    rmSync(folder, { recursive: true, force: true });
});

/** Returns a name for a new file. */
export function newPath() {
    return join(folder, `cache-${(files += 1)}.larder`);
}

/** A program that answers each line on its input with a line on its output. */
export class Program {
    constructor(command, args, env = {}) {
        this.process = spawn(command, args, {
            cwd: nodeFolder,
            env: { ...process.env, ...env },
            stdio: ['pipe', 'pipe', 'pipe'],
        });
        this.exited = once(this.process, 'exit');
        this.errors = '';
        this.process.stderr.setEncoding('utf8').on('data', (text) => (this.errors += text));
        // The program may end before it reads its input.
        this.process.stdin.on('error', () => undefined);
        this.lines = createInterface({ input: this.process.stdout })[Symbol.asyncIterator]();
        cleanups.push(() => this.kill());
    }

    async line() {
        const { value, done } = await this.lines.next();
        assert.ok(!done, `the program has ended: ${this.errors}`);
        return value;
    }

    async ask(text) {
        this.process.stdin.write(`${text}\n`);
        return await this.line();
    }

    /** Waits for the end of the program, and returns its exit status. */
    async end() {
        this.process.stdin.end();
        const [code, signal] = await this.exited;
        return code ?? signal;
    }

    async kill(signal = 'SIGKILL') {
        if (this.process.exitCode !== null || this.process.signalCode !== null) return;
        this.process.kill(signal);
        await this.exited;
    }
}

// The file of the cache is `path`; `ask` waits for a line of the test.
const PRELUDE = `
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { Cache } from 'larder-cache';
const [path, ...args] = process.argv.slice(-1)[0].split('|');
const input = createInterface({ input: process.stdin });
const say = (value) => console.log(typeof value === 'string' ? value : JSON.stringify(value));
`;

/** Runs JavaScript with a cache in another process. */
export function node(script, ...args) {
    const text = PRELUDE + script;
    return new Program(process.execPath, ['--input-type=module', '-e', text, args.join('|')]);
}

/** Runs JavaScript with a cache in another thread. `port` is the port to the test. */
export function thread(script, workerData) {
    const text = `
        const { parentPort: port, workerData } = require('node:worker_threads');
        const { setTimeout: sleep } = require('node:timers/promises');
        const { Cache } = require(${JSON.stringify(packagePath)});
        (async () => { ${script} })();`;
    const worker = new Worker(text, { eval: true, workerData });
    cleanups.push(() => worker.terminate());
    return worker;
}

/** Returns the next message of a thread. */
export async function message(worker) {
    const [value] = await once(worker, 'message');
    return value;
}

/** Waits until a condition holds, for some seconds at most. */
export async function until(condition, what, millis = 10_000) {
    const ends = Date.now() + millis;
    while (!condition()) {
        assert.ok(Date.now() < ends, `${what} did not happen`);
        await sleep(5);
    }
}

/** Returns a function that refuses an operation without the expected code. */
export function refuses(code, operation, text = /./) {
    assert.throws(operation, (error) => {
        assert.equal(error.code, code, `${error.stack}`);
        assert.match(error.message, text);
        return true;
    });
}

/** Collects the warnings of the process while an operation runs. */
export async function warningsOf(operation) {
    const warnings = [];
    const listener = (warning) => warnings.push(warning);
    process.on('warning', listener);
    try {
        await operation(warnings);
        // A warning is emitted after the running code.
        await sleep(1);
    } finally {
        process.off('warning', listener);
    }
    return warnings;
}
