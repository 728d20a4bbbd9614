import assert from 'node:assert/strict';
import { it } from 'node:test';
import { withoutBoilerplate } from '../src/feeds/boilerplate.ts';

it('counts for nothing what many entries of a feed say', () => {
  const texts = [1, 2, 3, 4].map(
    (at) => `Article URL: https://a.test/${at} Points: ${at}7. Comments`,
  );
  assert.deepEqual(withoutBoilerplate(texts), ['', '', '', '']);
  const own = [
    'Swifts sleep on the wing at night. Read more on our site.',
    'The bridge is closed to cars. Read more on our site.',
    'A reef is growing again after years. Read more on our site.',
  ];
  assert.deepEqual(withoutBoilerplate(own), [
    'Swifts sleep on the wing at night.',
    'The bridge is closed to cars.',
    'A reef is growing again after years.',
  ]);
  assert.deepEqual(withoutBoilerplate(['Same here.', 'Same here.']), ['Same here.', 'Same here.']);
});
