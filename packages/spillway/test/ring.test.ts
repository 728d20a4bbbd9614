import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Random } from 'spillway';
import { explore } from 'spillway/testing';
import { Ring, type RingMember } from '../src/wait/ring.ts';

class Guest implements RingMember {
  ring: Ring<RingMember> | undefined = undefined;
  slot = 0;
}

describe('Ring', () => {
  it('is what an array would be, only faster, whoever comes, leaves and comes back', async () => {
    await explore(500, playRing);
  });

  it('passes over those that leave while it is walked, and does not meet those that come', () => {
    const ring = new Ring<Guest>();
    const guests = Array.from({ length: 40 }, () => new Guest());
    for (const guest of guests.slice(0, 20)) ring.push(guest);
    const met: Guest[] = [];
    for (const guest of ring) {
      met.push(guest);
      ring.remove(guest);
      ring.remove(guests[2 * met.length] as Guest);
      ring.push(guests[19 + met.length] as Guest);
    }
    assert.deepEqual(
      met,
      [0, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19].map((index) => guests[index]),
    );
  });

  it('takes out only what stands in it', () => {
    const [ring, other] = [new Ring<Guest>(), new Ring<Guest>()];
    const guest = new Guest();
    other.push(guest);
    assert.equal(ring.remove(guest), false);
    assert.equal(other.remove(guest), true);
    assert.equal(other.remove(guest), false);
    assert.deepEqual([other.size, other.first, other.last], [0, undefined, undefined]);
  });
});

/** Sizes from none to some thousand, as a queue swells and drains. */
async function playRing(random: Random): Promise<void> {
  const ring = new Ring<Guest>();
  const model: Guest[] = [];
  const gone: Guest[] = [];
  const pick = (from: Guest[]): Guest | undefined =>
    from.splice(Math.floor(random() * from.length), 1)[0];
  for (let phase = 0; phase < 6; phase += 1) {
    const swelling = random();
    for (let step = 0; step < 20 * 4 ** (phase % 4); step += 1) {
      const guest = (random() < 0.3 ? pick(gone) : undefined) ?? new Guest();
      if (random() < swelling) {
        const isFirst = random() < 0.2;
        if (isFirst) ring.unshift(guest);
        else ring.push(guest);
        model.splice(isFirst ? 0 : model.length, 0, guest);
      } else if (random() < 0.5) {
        assert.equal(ring.shift(), model.shift());
      } else {
        const leaver = pick(model);
        if (leaver !== undefined) assert.equal(ring.remove(leaver), true);
        if (leaver !== undefined) gone.push(leaver);
      }
      assert.equal(ring.size, model.length);
      assert.equal(ring.first, model[0]);
      assert.equal(ring.last, model.at(-1));
    }
    assert.deepEqual([...ring], model);
  }
}
