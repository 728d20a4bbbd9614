import { type Html, html } from 'spillway-http';
import { decimal, percent } from 'spillway-http/kit';
import type { Stats } from '../../world/records.ts';

const pairNames = ['two losses', 'a loss and a draw', 'even', 'a win and a draw', 'two wins'];
const pairPoints = ['0', '½', '1', '1½', '2'];

/** Pairs of games by their points, as five bars; the large picture has numbers. */
export function pairBars({ pentanomial: counts }: Stats, size: 'small' | 'large' = 'small'): Html {
  const total = counts.reduce((sum, count) => sum + count, 0);
  const words = counts.map((count, at) => `${pairNames[at]} ${decimal(count)}`);
  const label = `Pairs: ${words.join(', ')}`;
  const highest = Math.max(1, ...counts);
  if (size === 'small') {
    const bars = counts.map((count, at) => {
      const height = Math.max(1, rounded((count / highest) * 32));
      const y = rounded(32 - height);
      return html`<rect x="${rounded(at * 12.4)}" y="${y}" width="10.4" height="${height}"></rect>`;
    });
    return html`<svg class="penta" width="60" height="32" role="img" aria-label="${label}">
${bars}</svg>`;
  }
  const bars = counts.map((count, at) => {
    // Room for the number above the highest bar, and for two lines of words below.
    const height = Math.max(0.8, rounded((count / highest) * 68));
    const y = rounded(80 - height);
    return html`<rect x="${at * 20 + 1}%" y="${y}%" width="18%" height="${height}%" rx="2"></rect>
<text class="count" x="${at * 20 + 10}%" y="${y}%" dy="-4">${decimal(count)}</text>
<text x="${at * 20 + 10}%" y="80%" dy="14">${pairPoints[at]}</text>
<text x="${at * 20 + 10}%" y="80%" dy="29">${percent(total === 0 ? 0 : count / total, 1)}</text>`;
  });
  return html`<svg class="penta large" role="img" aria-label="${label}">${bars}</svg>`;
}

/** A place in the picture, to a tenth. */
function rounded(value: number): number {
  return Math.round(value * 10) / 10;
}
