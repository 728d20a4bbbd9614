import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { masked } from 'spillway-http';

describe('masked', () => {
  it('hides whatever is under a name that speaks of a secret, at any depth', () => {
    const config = {
      port: 80,
      password: 'a',
      session: { secrets: ['b', 'c'], cookieSecret: 'd', name: 'sid' },
      list: [{ apiKey: 'e', API_TOKEN: 'f', awsCredentials: { id: 'g' } }],
    };
    assert.deepEqual(masked(config), {
      port: 80,
      password: '***',
      session: { secrets: '***', cookieSecret: '***', name: 'sid' },
      list: [{ apiKey: '***', API_TOKEN: '***', awsCredentials: '***' }],
    });
  });

  it('shows which secret is not set', () => {
    assert.deepEqual(masked({ token: undefined, key: null }), { token: null, key: null });
  });

  it('hides passwords inside addresses and connection strings', () => {
    const shown = (text: string) => masked({ text }) as { text: string };
    const cases: readonly (readonly [string, string])[] = [
      ['postgres://me:pa@ss@db:5432/x?y=1', 'postgres://***@db:5432/x?y=1'],
      ['redis://:pw@cache', 'redis://***@cache'],
      ['https://token@host/a@b', 'https://***@host/a@b'],
      ['https://host/a@b', 'https://host/a@b'],
      ['primary=http://u:p@h, spare=http://v:q@i', 'primary=http://***@h, spare=http://***@i'],
      ['https://h/?api_key=1234&page=2', 'https://h/?api_key=***&page=2'],
      ['host=db password=hunter2 user=me', 'host=db password=*** user=me'],
      ["host=db password='a b' user=me", 'host=db password=*** user=me'],
      ['Server=x;Password=y;Port=1', 'Server=x;Password=***;Port=1'],
    ];
    for (const [text, expected] of cases) assert.deepEqual(shown(text), { text: expected });
    assert.equal(masked(new URL('https://u:p@h/x')), 'https://***@h/x');
  });

  it('only names what may hold anything, and ends where a value holds itself', () => {
    class Handle {
      readonly inner = 'hidden';
    }
    const loop: Record<string, unknown> = { a: 1 };
    loop.self = loop;
    const shown = JSON.stringify(
      masked({ h: new Handle(), b: Buffer.from('pem'), f: () => 1, loop }),
    );
    assert.ok(!shown.includes('hidden') && !shown.includes('112'));
    assert.ok(shown.includes('[Handle]') && shown.includes('[Buffer]'));
    assert.ok(shown.includes('[deeper]'));
  });

  it('leaves the configuration itself alone, and cannot be made to set a prototype', () => {
    const config = JSON.parse('{"__proto__": {"polluted": 1}, "secret": "s"}');
    const copy = masked(config) as object;
    assert.equal(config.secret, 's');
    assert.equal(Object.getPrototypeOf(copy), Object.prototype);
    assert.equal('polluted' in copy, false);
  });
});
