// Invalidates a tag: immediately, or with ?profile=max so that its pages are refreshed.
import { revalidateTag } from 'next/cache';

export async function POST(request) {
    const { searchParams } = new URL(request.url);
    revalidateTag(searchParams.get('tag'), searchParams.get('profile') ?? { expire: 0 });
    return new Response('done');
}
