import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';

type Theme = 'light' | 'dark';
type Pair = readonly [string, string];
type Matrix = readonly (readonly number[])[];

const path = join(import.meta.dirname, '..', 'src', 'page', 'browser', 'kit.css');
const tokens: Record<Theme, Map<string, string>> = { light: new Map(), dark: new Map() };
for (const match of readFileSync(path, 'utf8').matchAll(
  /--([\w-]+): light-dark\((#\w+), (#\w+)\)/g,
)) {
  const [, name = '', light = '', dark = ''] = match;
  tokens.light.set(name, light);
  tokens.dark.set(name, dark);
}

function colour(theme: Theme, name: string): string {
  const found = tokens[theme].get(name);
  assert.ok(found, `--${name} is a token`);
  return found;
}

function product(matrix: Matrix, vector: readonly number[]): number[] {
  return matrix.map((row) => row.reduce((sum, value, at) => sum + value * (vector[at] ?? 0), 0));
}

/** The colour as red, green and blue light. */
function light(hex: string): number[] {
  return [1, 3, 5].map((at) => {
    const value = Number.parseInt(hex.slice(at, at + 2), 16) / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  });
}

function luminance(hex: string): number {
  return product([[0.2126, 0.7152, 0.0722]], light(hex))[0] as number;
}

/** Contrast as WCAG defines it. */
function contrast(a: string, b: string): number {
  const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y) as [number, number];
  return (high + 0.05) / (low + 0.05);
}

/** Colours as seen with three kinds of colour blindness (Machado, Oliveira, Fernandes 2009). */
const visions: Readonly<Record<string, Matrix>> = {
  'full colour vision': [
    [1, 0, 0],
    [0, 1, 0],
    [0, 0, 1],
  ],
  protanopia: [
    [0.152286, 1.052583, -0.204868],
    [0.114503, 0.786281, 0.099216],
    [-0.003882, -0.048116, 1.051998],
  ],
  deuteranopia: [
    [0.367322, 0.860646, -0.227968],
    [0.280085, 0.672501, 0.047413],
    [-0.01182, 0.04294, 0.968881],
  ],
  tritanopia: [
    [1.255528, -0.076749, -0.178779],
    [-0.078411, 0.930809, 0.147602],
    [0.004733, 0.691367, 0.3039],
  ],
};

const xyz: Matrix = [
  [0.4124, 0.3576, 0.1805],
  [0.2126, 0.7152, 0.0722],
  [0.0193, 0.1192, 0.9505],
];
const white = [0.9505, 1, 1.089];

/** The colour in a space where distances are those that people see. */
function lab(rgb: readonly number[]): number[] {
  const [x = 0, y = 0, z = 0] = product(xyz, rgb).map((value, at) => {
    const share = value / (white[at] as number);
    return share > 0.008856 ? Math.cbrt(share) : 7.787 * share + 16 / 116;
  });
  return [116 * y - 16, 500 * (x - y), 200 * (y - z)];
}

function distance(a: string, b: string, vision: Matrix): number {
  const seen = (hex: string) => lab(product(vision, light(hex)).map((v) => Math.max(0, v)));
  const other = seen(b);
  return Math.hypot(...seen(a).map((value, at) => value - (other[at] as number)));
}

function pairs(inks: readonly string[], grounds: readonly string[]): Pair[] {
  return inks.flatMap((ink) => grounds.map((ground) => [ink, ground] as const));
}

const words: readonly Pair[] = [
  ...pairs(['text', 'quiet'], ['page', 'card', 'sunk', 'hover', 'tint']),
  ...pairs(['text', 'quiet'], ['good-tint', 'bad-tint', 'warn-tint']),
  ...pairs(['accent', 'good', 'bad', 'warn'], ['page', 'card', 'hover']),
  ...pairs(['on-accent'], ['accent', 'bad']),
  ['accent', 'tint'],
  ['good', 'good-tint'],
  ['bad', 'bad-tint'],
  ['warn', 'warn-tint'],
  ['page', 'text'],
];
const shapes: readonly Pair[] = [
  ...pairs(['edge'], ['card', 'page']),
  ...pairs(['good', 'bad', 'warn', 'line-1'], ['sunk']),
  ...pairs(['line-1', 'line-2', 'line-3', 'line-4', 'line-5'], ['card']),
];
const verdicts: readonly Pair[] = [
  ['good', 'bad'],
  ['good', 'accent'],
  ['bad', 'accent'],
  ['good', 'warn'],
  ['bad', 'warn'],
  ['line-1', 'line-2'],
  ['line-1', 'line-3'],
  ['line-2', 'line-3'],
];

for (const theme of ['light', 'dark'] as const) {
  describe(`the colours of the kit, ${theme}`, () => {
    for (const [kind, list, least] of [
      ['words', words, 4.5],
      ['shapes', shapes, 3],
    ] as const) {
      it(`have a contrast of ${least} for ${kind}`, () => {
        for (const [ink, ground] of list) {
          const value = contrast(colour(theme, ink), colour(theme, ground));
          assert.ok(value >= least, `${ink} on ${ground}: ${value.toFixed(2)}`);
        }
      });
    }

    for (const [name, vision] of Object.entries(visions)) {
      it(`tell verdicts and lines apart with ${name}`, () => {
        for (const [a, b] of verdicts) {
          const value = distance(colour(theme, a), colour(theme, b), vision);
          assert.ok(value >= 10, `${a} and ${b}: ${value.toFixed(0)}`);
        }
      });
    }
  });
}
