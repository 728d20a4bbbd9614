import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { seededRandom } from 'spillway';
import {
  calibrate,
  fitCalibration,
  identityCalibration,
  isotonicFit,
  type Prediction,
  plattFit,
} from '../src/learn/calibration.ts';

const random = seededRandom(3);

/** A model that says too little of the difference, with noise. */
function timid(count: number): Prediction[] {
  return Array.from({ length: count }, () => {
    const score = 1 + 9 * random();
    return { score, raw: 5.5 + 0.3 * (score - 5.5) + 0.4 * (random() - 0.5) };
  });
}

describe('calibration', () => {
  it('leaves everything as it is with fewer than 20 samples', () => {
    assert.equal(fitCalibration(timid(19)), identityCalibration);
    assert.equal(calibrate(identityCalibration, 4.2), 4.2);
    assert.notEqual(fitCalibration(timid(60)), identityCalibration);
  });

  it('leaves a model alone that is right already', () => {
    const right = timid(60).map(({ score }) => ({ score, raw: score + 0.5 * (random() - 0.5) }));
    assert.equal(fitCalibration(right).kind, 'identity');
  });

  it('brings a timid model nearer to what it has not seen', () => {
    const calibration = fitCalibration(timid(100));
    const fresh = timid(200);
    const off = (says: (raw: number) => number) =>
      fresh.reduce((sum, { raw, score }) => sum + Math.abs(says(raw) - score), 0) / fresh.length;
    const [before, after] = [off((raw) => raw), off((raw) => calibrate(calibration, raw))];
    assert.ok(after < before / 3, `${before} before, ${after} after`);
  });

  for (const [name, fit] of [
    ['isotonic', isotonicFit],
    ['logistic', plattFit],
  ] as const) {
    it(`never changes the order: ${name}`, () => {
      const calibration = fit(timid(80));
      let last = -Infinity;
      for (let raw = -5; raw <= 15; raw += 0.05) {
        const score = calibrate(calibration, raw);
        assert.ok(score > last, `${score} after ${last} at ${raw}`);
        last = score;
      }
    });
  }

  it('keeps the mean, pools what falls, and is its own fit: isotonic', () => {
    const samples = [3, 1, 2, 6, 5, 9].map((score, raw) => ({ raw, score }));
    const { raw, scores } = isotonicFit(samples);
    assert.deepEqual([...scores], [2, 5.5, 9]);
    assert.deepEqual([...raw], [1, 3.5, 5]);
    const again = isotonicFit([...scores].map((score, at) => ({ score, raw: raw[at] as number })));
    assert.deepEqual([...again.scores], [...scores]);
  });

  it('copes with samples that are all the same', () => {
    const same = Array.from({ length: 30 }, () => ({ raw: 7, score: 4 }));
    for (const fit of [fitCalibration, isotonicFit, plattFit]) {
      assert.ok(Number.isFinite(calibrate(fit(same), 7)));
    }
    assert.ok(Math.abs(calibrate(isotonicFit(same), 7) - 4) < 1e-6);
  });
});
