// A page that is rendered for each request, with a result of a function that is cached.
import { randomUUID } from 'node:crypto';
import { cacheLife, cacheTag } from 'next/cache';
import { connection } from 'next/server';

async function loaded(id) {
    'use cache';
    cacheTag('figures');
    cacheLife('hours');
    return `${id}-${process.pid}-${randomUUID()}`;
}

export default async function Page({ params }) {
    await connection();
    const { id } = await params;
    return <p>{`[rendered=${process.pid}-${randomUUID()} loaded=${await loaded(id)}]`}</p>;
}
