// The page of isr, which is rendered again after two seconds.
import { randomUUID } from 'node:crypto';

export const revalidate = 2;

export function generateStaticParams() {
    return [];
}

export default async function Page({ params }) {
    const { id } = await params;
    const response = await fetch(`${process.env.COUNTER}/${id}`);
    const rendered = `rendered=${process.pid}-${randomUUID()}`;
    return <p>{`[${rendered} fetched=${await response.text()}]`}</p>;
}
