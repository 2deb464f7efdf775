// The picture of a run, as SVG: the time of a get in each cache, on a logarithmic scale.

import { OURS, ratioOf, timeOf } from './tables.mjs';

// All coordinates are in pixels.
const WIDTH = 800;
const LEFT = 200;
const RIGHT = 690;
const TOP = 66;
const ROW = 30;
const BAR = 18;
const STYLE = `
  .back { fill: #ffffff }
  text { fill: #24292f; font: 13px system-ui, sans-serif }
  .title { font-size: 16px; font-weight: 600 }
  .small { fill: #57606a; font-size: 12px }
  .grid { stroke: #d8dee4; stroke-width: 1 }
  .bar { fill: #b8bfc7 }
  .ours { fill: #1f6fb4 }
  text.name { font-weight: 600; fill: #24292f }
  @media (prefers-color-scheme: dark) {
    .back { fill: #0d1117 }
    text, text.name { fill: #e6edf3 }
    .small { fill: #9da7b3 }
    .grid { stroke: #2d333b }
    .bar { fill: #57606a }
    .ours { fill: #6cb3f0 }
  }
`;

function text(x, y, content, kind = '', anchor = 'start') {
    const where = `x="${x.toFixed(1)}" y="${y.toFixed(1)}" text-anchor="${anchor}"`;
    return `<text ${where} class="${kind}">${content}</text>`;
}

function shownTime(time) {
    return time < 1000 ? `${time.toFixed(0)} ns` : `${(time / 1000).toFixed(1)} µs`;
}

/** Returns the picture. */
export function drawn(rounds) {
    const times = Object.keys(rounds[0])
        .map((name) => [name, timeOf(rounds, name, 'get')])
        .filter(([, time]) => time !== undefined);
    const all = times.map(([, time]) => time);
    const lowest = Math.floor(Math.log10(Math.min(...all)));
    const highest = Math.ceil(Math.log10(Math.max(...all)));
    const bottom = TOP + ROW * times.length;
    const height = bottom + 84;
    const xOf = (time) => LEFT + ((RIGHT - LEFT) * (Math.log10(time) - lowest)) / (highest - lowest);
    const parts = [];
    for (let power = lowest; power <= highest; power++) {
        const x = xOf(10 ** power);
        parts.push(`<line class="grid" x1="${x.toFixed(1)}" x2="${x.toFixed(1)}" y1="${TOP}" y2="${bottom}"/>`);
        const label = power < 3 ? `${10 ** power} ns` : `${10 ** (power - 3)} µs`;
        parts.push(text(x, bottom + 18, label, 'small', 'middle'));
    }
    times.forEach(([name, time], row) => {
        const y = TOP + ROW * row + (ROW - BAR) / 2;
        const isOurs = name.startsWith(OURS) || name.startsWith('Client');
        const size = `width="${(xOf(time) - LEFT).toFixed(1)}" height="${BAR}"`;
        parts.push(`<rect class="${isOurs ? 'ours' : 'bar'}" x="${LEFT}" y="${y.toFixed(1)}" ${size}/>`);
        parts.push(text(LEFT - 8, y + 13, name, isOurs ? 'name' : '', 'end'));
        const ratio = ratioOf(rounds, name, 'get').toPrecision(3);
        parts.push(text(xOf(time) + 6, y + 13, `${shownTime(time)}, ${ratio} times`, 'small'));
    });
    const title = 'The time of a get of 100 bytes in Node, and its ratio to larder-cache';
    const legend = [
        '100,000 keys in a random order (10,000 for clients). The time includes the loop around the get.',
        'Logarithmic scale: each line is ten times the one before.',
    ];
    return [
        `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${height}" ` +
            `viewBox="0 0 ${WIDTH} ${height}" role="img" aria-labelledby="title legend">`,
        `<title id="title">${title}</title>`,
        `<desc id="legend">${legend.join(' ')}</desc>`,
        `<style>${STYLE}</style>`,
        `<rect class="back" width="${WIDTH}" height="${height}" rx="6"/>`,
        text(24, 32, title, 'title'),
        ...parts,
        ...legend.map((line, row) => text(24, height - 35 + 17 * row, line, 'small')),
        '</svg>\n',
    ].join('\n');
}
