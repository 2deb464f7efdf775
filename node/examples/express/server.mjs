// @ts-check
// A site with four workers that share one cache: node server.mjs. Then open http://127.0.0.1:3000.
// PORT, CACHE and WORKERS change the port (0 for any), the file of the cache and the workers.
import cluster from 'node:cluster';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';

import express from 'express';
import { Cache } from 'larder-cache';

const port = Number(process.env.PORT ?? 3000);
const shared = process.env.CACHE ?? '/dev/shm/express-example.larder';

if (cluster.isPrimary) {
    runWorkers(Number(process.env.WORKERS ?? 4));
} else {
    await serve();
}

/**
 * Starts workers, and replaces those that end until the program is stopped.
 * @param {number} count
 */
function runWorkers(count) {
    for (let i = 0; i < count; i++) cluster.fork();
    let isStopping = false;
    let address = '';
    cluster.on('listening', (worker, { address: host, port: bound }) => {
        if (address === '') console.log(`http://${host}:${bound}`);
        address ||= `${host}:${bound}`;
    });
    cluster.on('exit', () => {
        if (!isStopping) cluster.fork();
    });
    for (const signal of ['SIGINT', 'SIGTERM']) {
        process.once(signal, () => {
            isStopping = true;
            const workers = Object.values(cluster.workers ?? {});
            for (const worker of workers) worker?.process.kill('SIGTERM');
        });
    }
}

/** Answers requests in a worker. */
async function serve() {
    // The first worker creates the cache, the others open it.
    const cache = new Cache({ shared, memory: '64M' });
    const app = express();

    app.get('/', (request, response) => {
        const { get_hits: hits, get_misses: misses } = cache.stats();
        response.type('text').send(
            `worker ${process.pid}: ${hits} hits, ${misses} misses, ` +
                `${cache.get('queries') ?? 0} slow queries\n`,
        );
    });

    app.get('/users/:id', async (request, response) => {
        const { id } = request.params;
        // One worker runs the query. All other requests for the key, in all workers, wait for it.
        const user = await cache.wrap(`user:${id}`, 60_000, () => queryUser(cache, id));
        response.json({ ...user, worker: process.pid });
    });

    const server = app.listen(port, '127.0.0.1');
    await once(server, 'listening');
    // A terminal sends its signal to all processes of the program; the primary one handles it.
    process.on('SIGINT', () => {});
    process.once('SIGTERM', () => {
        // Requests in progress end; connections that wait for another request are closed.
        server.close(() => {
            cache.close();
            process.exit(0);
        });
        server.closeIdleConnections();
    });
}

/**
 * Stands for a query of a database that takes half a second.
 * @param {Cache} cache
 * @param {string} id
 */
async function queryUser(cache, id) {
    cache.increment('queries');
    cache.set(`loader:${id}`, process.pid);
    await sleep(500);
    return { id, name: `User ${id}`, loader: process.pid };
}
