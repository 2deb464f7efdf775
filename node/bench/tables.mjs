// The tables of a run, as Markdown. A figure is the median of all rounds.

export const OURS = 'Cache';

export function median(numbers) {
    const sorted = [...numbers].sort((a, b) => a - b);
    return sorted[sorted.length >> 1];
}

/** Returns a time; undefined if the cache has none of this load. */
export function timeOf(rounds, name, load) {
    const times = rounds.map((round) => round[name]?.[load]).filter((time) => time !== undefined);
    return times.length > 0 ? median(times) : undefined;
}

/** Returns the ratio of a time to that of another cache. */
export function ratioOf(rounds, name, load, base = OURS) {
    const ratios = rounds.map((round) => round[name]?.[load] / round[base]?.[load]);
    const known = ratios.filter((ratio) => !Number.isNaN(ratio));
    return known.length > 0 ? median(known) : undefined;
}

function shownTime(time) {
    if (time === undefined) return '-';
    return time < 100 ? time.toPrecision(3) : time.toFixed(0);
}

function row(cells) {
    return `| ${cells.join(' | ')} |`;
}

/** A table of times and, in bold, ratios to a cache. */
function table(rounds, names, base) {
    const present = names.filter((name) => rounds[0][name]);
    const loads = [...new Set(present.flatMap((name) => Object.keys(rounds[0][name])))];
    const cell = (name, load) => {
        const time = timeOf(rounds, name, load);
        const ratio = ratioOf(rounds, name, load, base);
        return ratio === undefined ? shownTime(time) : `${shownTime(time)}, **${ratio.toFixed(2)}**`;
    };
    return [
        row(['', ...loads]),
        row(['---', ...loads.map(() => '--:')]),
        ...present.map((name) => row([name, ...loads.map((load) => cell(name, load))])),
    ].join('\n');
}

/** The targets, as rows of text, limit and time. */
function targets(rounds) {
    const time = (name, load) => timeOf(rounds, name, load) ?? NaN;
    const floor = time('floor', 'empty native call') + time('floor', 'new Buffer of 100 bytes') -
        time('floor', 'empty loop');
    const rows = [
        ['get ≤ 1.5 times the floor', 1.5 * floor, time('Cache', 'get')],
        ['get, 1,000 keys ≤ 1.5 times the floor', 1.5 * floor, time('Cache', 'get, 1,000 keys')],
        ['get ≤ 1/15 of memjs, memcached', time('memjs, memcached', 'get') / 15, time('Cache', 'get')],
        [
            'get of text ≤ 1.5 times lru-cache with the same copy',
            1.5 * time('lru-cache, text, copy', 'get'),
            time('Cache, text', 'get'),
        ],
    ];
    return [
        row(['', 'target', 'measured']),
        row(['---', '--:', '--:']),
        ...rows
            .filter(([, limit, found]) => !Number.isNaN(limit + found))
            .map(([text, limit, found]) => {
                const verdict = found <= limit ? 'met' : 'missed';
                return row([text, `${shownTime(limit)} ns`, `${shownTime(found)} ns: ${verdict}`]);
            }),
    ].join('\n');
}

/** Returns all tables. */
export function tablesOf(rounds) {
    const names = Object.keys(rounds[0]);
    const isText = (name) => name.includes('text');
    const isRemote = (name) => /^(Client|memjs)/.test(name);
    const bytes = names.filter((name) => name !== 'floor' && !isText(name) && !isRemote(name));
    return [
        table(rounds, bytes, OURS),
        table(rounds, names.filter(isText), 'Cache, text'),
        table(rounds, names.filter(isRemote), 'Client, TCP'),
        table(rounds, ['floor'], undefined),
        targets(rounds),
    ].join('\n\n');
}
