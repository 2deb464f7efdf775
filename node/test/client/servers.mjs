// Starts the servers of the tests: larderd and memcached in a temporary folder, on loopback only,
// and servers that send what a test wants. They end with the test.
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

const START_MILLIS = 60_000;
const built = fileURLToPath(new URL('../../../target/release/larderd', import.meta.url));
const larderd = process.env.LARDERD ?? built;

/** Returns a folder that is removed after the test. */
export function folder(t) {
    const path = mkdtempSync(join(tmpdir(), 'larder-client-'));
    t.after(() => rmSync(path, { recursive: true, force: true }));
    return path;
}

/** Returns a TCP port of 127.0.0.1 that no process uses at the moment. */
export async function freePort() {
    const server = net.createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address();
    server.close();
    await once(server, 'close');
    return port;
}

/** Waits until a condition is true, and fails with `what` after 20 seconds. */
export async function until(isTrue, what) {
    for (const end = Date.now() + 20_000; !(await isTrue()); await sleep(10)) {
        if (Date.now() > end) throw new Error(what);
    }
}

/** A running server. `unix` and `tcp` are its addresses for clients. */
class Server {
    #process;

    constructor(program, args, { unix, port }) {
        Object.assign(this, { program, args, unix, port, tcp: `127.0.0.1:${port}` });
    }

    get pid() {
        return this.#process.pid;
    }

    async start() {
        this.#process = spawn(this.program, this.args, { stdio: 'ignore' });
        let failed;
        this.#process.once('error', (error) => (failed = error));
        for (const end = Date.now() + START_MILLIS; !(await this.#accepts()); await sleep(5)) {
            if (failed) throw failed;
            const { exitCode } = this.#process;
            if (exitCode !== null) throw new Error(`${this.program} ended with status ${exitCode}`);
            if (Date.now() > end) throw new Error(`${this.program} does not accept connections`);
        }
    }

    /** Ends the process as a crash would. */
    async kill() {
        const { exitCode, signalCode } = this.#process;
        if (exitCode !== null || signalCode !== null) return;
        const exited = once(this.#process, 'exit');
        this.#process.kill('SIGKILL');
        await exited;
    }

    async restart() {
        await this.kill();
        await this.start();
    }

    /** Stops the process: it answers nothing until `resume`. */
    async pause() {
        this.#process.kill('SIGSTOP');
        // Until all its threads have stopped, some of them may answer.
        const state = () => readFileSync(`/proc/${this.pid}/stat`, 'utf8').split(') ')[1][0];
        await until(() => state() === 'T', 'the server does not stop');
    }

    resume() {
        this.#process.kill('SIGCONT');
    }

    #accepts() {
        return new Promise((resolve) => {
            const target = this.unix ? { path: this.unix } : { port: this.port, host: '127.0.0.1' };
            const socket = net.connect(target, () => resolve(true));
            socket.on('connect', () => socket.destroy()).on('error', () => resolve(false));
        });
    }
}

/** Runs a larderd at a TCP port and at a unix socket, whose clients may read its memory. */
export async function startLarderd(t, ...args) {
    const [unix, port] = [join(folder(t), 's'), await freePort()];
    const addresses = `127.0.0.1,unix[readers]:${unix}`;
    const options = ['-p', `${port}`, '-l', addresses, '-m', '64', '-t', '2', '-U', '0', ...user()];
    return started(t, new Server(larderd, [...options, ...args], { unix, port }));
}

/** Runs a memcached at a TCP port. Returns undefined if the program does not exist. */
export async function startMemcached(t, ...args) {
    const program = (process.env.PATH ?? '')
        .split(':')
        .map((path) => join(path, 'memcached'))
        .find(existsSync);
    if (program === undefined) {
        t.skip('the program memcached does not exist');
        return undefined;
    }
    const port = await freePort();
    const options = ['-l', '127.0.0.1', '-p', `${port}`, '-t', '2', '-U', '0', ...user(), ...args];
    return started(t, new Server(program, options, { port }));
}

async function started(t, server) {
    t.after(() => server.kill());
    await server.start();
    return server;
}

function user() {
    // Both servers need it as root.
    return process.getuid() === 0 ? ['-u', 'root'] : [];
}

/**
 * Runs a server that calls `serve(socket, line)` for each line that it receives. `requests` has the
 * lines of all connections, `connections` their number.
 */
export async function scripted(t, serve) {
    const sockets = new Set();
    const server = net.createServer((socket) => {
        sockets.add(socket);
        scene.connections++;
        let rest = '';
        socket.on('error', () => undefined);
        socket.on('data', (data) => {
            const lines = (rest + data.toString('latin1')).split('\r\n');
            rest = lines.pop();
            for (const line of lines) {
                scene.requests.push(line);
                serve?.(socket, line);
            }
        });
    });
    const scene = { requests: [], connections: 0, sockets };
    t.after(() => {
        for (const socket of sockets) socket.destroy();
        server.close();
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return Object.assign(scene, { tcp: `127.0.0.1:${server.address().port}` });
}

/** Returns the number of a meta request, which the response repeats: `O17`. */
export function opaque(line) {
    return /\bO\d+$/.exec(line)[0];
}

/** Sends text to a server as it is, and returns the response up to `end`. */
export async function raw(server, text, end = '\r\n') {
    const socket = net.connect(server.port, '127.0.0.1');
    socket.write(text, 'latin1');
    let response = '';
    for await (const data of socket) {
        response += data.toString('latin1');
        if (response.endsWith(end)) break;
    }
    return response;
}

/** Makes a certificate for 127.0.0.1. Returns the paths of the certificate and its key. */
export function certificate(t) {
    const [cert, key] = ['cert.pem', 'key.pem'].map((name) => join(folder(t), name));
    const names = 'subjectAltName=IP:127.0.0.1,DNS:localhost';
    const kind = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];
    const rest = ['-days', '2', '-subj', '/CN=localhost', '-addext', names];
    const args = ['req', '-x509', ...kind, '-keyout', key, '-out', cert, ...rest];
    execFileSync('openssl', args, { stdio: 'ignore' });
    return { cert, key };
}
