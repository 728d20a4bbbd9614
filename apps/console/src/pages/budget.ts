import { type Html, html } from 'spillway-http';
import { card, decimal, percent } from 'spillway-http/kit';
import type { BucketReading, LaneReading } from '../parts.ts';
import type { BucketSecond, ServiceWatch } from '../service-watch.ts';

/** Lanes of the sum that have a line of their own; the others are one line. */
const linesMax = 5;
/** Share of the bar below which a name has no room. */
const nameShare = 0.08;

/** A lane and its permits in use at the busiest moment of the lane that it is inside of. */
interface Use {
  readonly lane: LaneReading;
  readonly peak: number;
}

/** The permits that lanes share: whose they are, and what a burst of the last minute left. */
export function budgetCards(service: ServiceWatch, lanes: readonly LaneReading[]): Html[] {
  return lanes
    .filter((lane) => lane.limit > 0 && lane.lanes.some(({ arrived }) => arrived > 0))
    .map((root) => budgetCard(service, root));
}

function budgetCard(service: ServiceWatch, root: LaneReading): Html {
  const busiest = service.busiestOf(root);
  const uses = root.lanes
    .map((lane): Use => ({ lane, peak: busiest.get(lane.name)?.inside ?? 0 }))
    .filter(({ peak }) => peak > 0)
    .toSorted((a, b) => b.peak - a.peak);
  const peak = busiest.get(root.name)?.inside ?? root.inside;
  return card({
    id: `budget-${root.name}`,
    title: 'Permits in a burst',
    about: `${service.name} / ${root.name}, at the busiest moment of the last minute`,
    body: html`${bar(root, uses)}${sum(root.limit, uses, peak)}`,
  });
}

/** Each lane's permits at the busiest moment, those in use now before them; the rest is free. */
function bar({ name, limit, inside }: LaneReading, uses: readonly Use[]): Html {
  let taken = 0;
  const parts = uses.map(({ lane, peak }) => {
    const at = share(taken, limit);
    const width = Math.min(peak, limit - taken);
    taken += width;
    const isFull = lane.limit > 0 && peak >= lane.limit;
    const label = width / limit >= nameShare && html`<text x="${at}" y="36">${lane.name}</text>`;
    return html`<rect class="${isFull ? 'share full' : 'share'}" x="${at}"
 width="${share(width, limit)}" height="20"><title>${lane.name}: ${peak}</title></rect>
<rect class="used" x="${at}" width="${share(Math.min(width, lane.inside), limit)}"
 height="20"></rect><line class="cut-line" x1="${at}" x2="${at}" y2="20"></line>${label}`;
  });
  const label = `Of ${limit} permits of ${name} ${inside} are in use now`;
  return html`<svg class="budget" role="img" aria-label="${label}">
<rect class="free" width="100%" height="20"></rect>
${parts}<text class="end" x="100%" y="36">${decimal(limit - inside)} free now</text></svg>`;
}

function share(count: number, limit: number): string {
  return `${((100 * count) / limit).toFixed(2)}%`;
}

/** The subtraction: all permits, less those of each lane at the busiest moment. */
function sum(limit: number, uses: readonly Use[], peak: number): Html {
  const line = (name: string, count: number, kind = '') =>
    html`<tr class="${kind}"><th scope="row">${name}</th><td class="num">${decimal(count)}</td>
<td class="num quiet">${percent(count / limit, 1)}</td></tr>`;
  const shown = uses.slice(0, linesMax);
  const others = shown.reduce((left, { peak: own }) => left - own, peak);
  const lines = shown.map(({ lane, peak: own }) => line(`− ${lane.name}`, own));
  return html`<table class="sum"><tbody>${line('Permits in all', limit)}${lines}
${others > 0 && line('− others', others)}
${line('Left at the busiest moment', limit - peak, 'total')}</tbody></table>`;
}

/** A bucket in the last minute: calls that got a token, calls turned away, tokens left. */
export function burstChart(service: ServiceWatch, bucket: BucketReading): Html {
  const seconds = service.secondsOf(bucket);
  if (seconds.length < 2) return html``;
  const asked = Math.max(1, ...seconds.map(({ taken, refused }) => taken + refused));
  const granted = seconds.reduce((all, { taken }) => all + taken, 0);
  const refused = seconds.reduce((all, second) => all + second.refused, 0);
  const counts = `${decimal(granted)} granted and ${decimal(refused)} refused`;
  const words = `${counts} in the last minute, at most ${decimal(asked)} asked in a second`;
  const bars = (from: (second: BucketSecond) => number, to: (second: BucketSecond) => number) =>
    seconds
      .map((second, at) => {
        const bottom = 20 - (from(second) / asked) * 20;
        const top = 20 - (to(second) / asked) * 20;
        return top < bottom ? `M${at} ${short(bottom)}V${short(top)}h0.8V${short(bottom)}Z` : '';
      })
      .join('');
  const full = Math.max(1, ...seconds.map(({ tokens }) => tokens));
  const line = seconds
    .map(
      ({ tokens }, at) => `${at === 0 ? 'M' : 'L'}${at + 0.4} ${short(20 - (tokens / full) * 20)}`,
    )
    .join('');
  const grantedBars = bars(
    () => 0,
    ({ taken }) => taken,
  );
  const refusedBars = bars(
    ({ taken }) => taken,
    (second) => second.taken + second.refused,
  );
  return html`<svg class="burst" viewBox="0 0 ${seconds.length} 20" preserveAspectRatio="none"
 role="img" aria-label="${bucket.name}: ${words}"><path class="granted" d="${grantedBars}"></path>
<path class="refused" d="${refusedBars}"></path><path class="tokens" d="${line}"></path></svg>
<span class="legend"><span><i class="granted"></i>granted</span>
<span><i class="refused"></i>refused</span>
<span><i class="tokens"></i>tokens left, at most ${decimal(full, 1)}</span></span>
<span class="quiet small">${words}</span>`;
}

function short(value: number): number {
  return Math.round(value * 100) / 100;
}
