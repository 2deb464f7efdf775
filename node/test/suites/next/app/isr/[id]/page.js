// A page that is rendered at its first request. It shows who has rendered it, and a number that a
// server increments with each request.
import { randomUUID } from 'node:crypto';

export const revalidate = 3600;

export function generateStaticParams() {
    return [];
}

export default async function Page({ params }) {
    const { id } = await params;
    const response = await fetch(`${process.env.COUNTER}/${id}`, { next: { tags: ['news'] } });
    const rendered = `rendered=${process.pid}-${randomUUID()}`;
    return <p>{`[${rendered} fetched=${await response.text()}]`}</p>;
}
