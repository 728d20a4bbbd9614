import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdtempDisposable, readdir, readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { StandIn } from 'spillway-fixtures/stand-in';
import { IngestCommand } from './fixtures/ingest-command.ts';
import { atStandIn } from './fixtures/source-scene.ts';

const token = `\${TOKEN}`;

/** As Python and PHP encode it. */
function strict(value: string): string {
  return encodeURIComponent(value).replaceAll(/[!'()*]/g, (letter) => {
    return `%${letter.charCodeAt(0).toString(16).toUpperCase()}`;
  });
}

describe('a secret that an API gives back', () => {
  const secret = 'p&ss/w=rd+1';
  const declaration = {
    name: 'posts',
    address: 'http://localhost/posts',
    key: 'id',
    limits: { perSecond: 5_000 },
    headers: { authorization: `Bearer ${token}` },
    query: { api_key: token },
    records: 'items',
    pages: { by: 'cursor', cursor: 'cursor', next: 'next' },
  };

  for (const value of [secret, 'p"ss w/rd&1', "k!y(x)*~ä'z", 'key~>?~>?ÿÿ']) {
    it(`is masked in errors, however it is written: ${value}`, async () => {
      const forms = [
        value,
        encodeURIComponent(value),
        encodeURI(value),
        Buffer.from(value).toString('base64'),
        JSON.stringify({ key: value }).slice(8, -2),
        JSON.stringify({ key: value }).slice(8, -2).replaceAll('/', '\\/'),
        Buffer.from(value).toString('hex'),
        Buffer.from(value).toString('hex').toUpperCase(),
        value.replaceAll('&', '&amp;').replaceAll('"', '&quot;'),
        value.replaceAll('&', '&#38;').replaceAll('"', '&#34;'),
        Buffer.from(`me:${value}`).toString('base64').slice(4),
        Buffer.from(`user:${value}`).toString('base64').slice(7),
        Buffer.from(`x:${value}`).toString('base64url').slice(3),
        encodeURIComponent(Buffer.from(`x:${value}`).toString('base64')).slice(3),
        Buffer.from(encodeURIComponent(value)).toString('base64'),
        Buffer.from(Buffer.from(value).toString('base64')).toString('base64'),
        encodeURIComponent(encodeURIComponent(value)),
        strict(value),
        strict(value).replaceAll(/%../g, (code) => code.toLowerCase()),
        Array.from(Buffer.from(value), (byte) => `%${byte.toString(16)}`).join(''),
        // As Python and Go write JSON.
        value.replaceAll(/[^a-z]/g, (letter) => {
          return `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`;
        }),
      ];
      await atStandIn(declaration, { TOKEN: value }, async (site, scene) => {
        for (const form of forms) {
          // The second is at the place where the text of an error is cut.
          const text = `${form} ${'x'.repeat(170)} ${form} is not a key`;
          for (const status of [400, 401]) {
            site.tell(text, status);
            const said = String((await scene.run()).outcomes[0]?.reason);
            assert.match(
              said,
              new RegExp(`posts: (http://127[.\\d:]+)?/posts: ${status} \\$\\{TOKEN`),
            );
            assert.ok(!said.includes(form.slice(0, 6)), said);
          }
        }
      });
    });
  }

  it('is masked if it is long, such as a token of 4,000 characters', async () => {
    const long = randomBytes(3_000).toString('base64url');
    const hex = Buffer.from(long).toString('hex');
    await atStandIn(declaration, { TOKEN: long }, async (site, scene) => {
      site.tell(`{"wrong":"${hex.replaceAll(/../g, (byte) => `\\u00${byte}`)}"}`, 400);
      const { outcomes } = await scene.run();
      assert.match(String(outcomes[0]?.reason), /400 \{"wrong":"\$\{TOKEN\|escaped\}/);
    });
  });

  it('is masked as Basic authentication has it: base64, plain, the password alone', async () => {
    const plain = 'shop:s3cret/key';
    const basic = Buffer.from(plain).toString('base64');
    const headers = { authorization: `Basic ${token}` };
    await atStandIn({ ...declaration, headers }, { TOKEN: basic }, async (site, scene) => {
      for (const form of [basic, plain, 's3cret/key', 's3cret%2Fkey', encodeURIComponent(basic)]) {
        site.tell(`${form} is wrong`, 401);
        const said = String((await scene.run()).outcomes[0]?.reason);
        assert.match(said, /401 \$\{TOKEN/);
        assert.doesNotMatch(said, /s3cret|c2hvc/);
      }
    });
  });

  it('is masked where a field or the whole answer is wrong', async () => {
    for (const answer of [
      `<html>${secret}`,
      `{"items":"${secret}"}`,
      `{"items":[],"next":["${secret}"]}`,
      // Where the text of an error is cut.
      `<html>${'x'.repeat(310)}${secret}`,
      `<html>${' '.repeat(310)}${secret}`,
      `{"items":"${'x'.repeat(75)}${secret}"}`,
      `{"items":{"a":"${'x'.repeat(75)}${secret}"}}`,
    ]) {
      await atStandIn(declaration, { TOKEN: secret }, async (site, scene) => {
        site.tell(answer);
        const { outcomes } = await scene.run();
        assert.equal(outcomes[0]?.status, 'failed');
        assert.ok(!String(outcomes[0]?.reason).includes('p&ss'), String(outcomes[0]?.reason));
      });
    }
  });

  it('is masked where pages are by ids', async () => {
    const query = { from: '{from}', to: '{to}' };
    const pages = { by: 'ids', size: 10, query, latest: { newest: 1 } };
    for (const isLatest of [true, false]) {
      await atStandIn({ ...declaration, pages }, { TOKEN: secret }, async (site, scene) => {
        site.serve = (request, response) => {
          const isWrong = isLatest || !request.url?.includes('newest');
          const id = isWrong ? `${'x'.repeat(75)}${secret}` : 5;
          response.end(JSON.stringify({ items: [{ id }, { id: isWrong ? secret : 4 }] }));
        };
        const { outcomes } = await scene.run();
        assert.equal(outcomes[0]?.status, 'failed');
        const said = String(outcomes[0]?.reason);
        assert.match(said, /must be an integer from 0, got/);
        assert.ok(!said.includes('p&s'), said);
      });
    }
  });

  it('is not kept as part of a cursor, and sent again as it was', async () => {
    await atStandIn(declaration, { TOKEN: secret }, async (site, scene, folder) => {
      const next = `after ${secret} ${Buffer.from(secret).toString('base64')}`;
      const cursors: string[] = [];
      site.serve = (request, response) => {
        const { searchParams } = new URL(request.url ?? '/', 'http://x');
        cursors.push(searchParams.get('cursor') ?? '');
        const isFirst = !searchParams.has('cursor');
        const items = [{ id: isFirst ? 1 : 2 }];
        response.end(JSON.stringify({ items, next: isFirst ? next : null }));
      };
      const { outcomes } = await scene.run();
      assert.deepEqual([outcomes[0]?.status, outcomes[0]?.trades], ['done', 2]);
      assert.deepEqual(cursors, ['', next]);
      for (const file of ['ingest.db', 'ingest.db-wal']) {
        const kept = await readFile(join(folder, file), 'latin1');
        assert.ok(!kept.includes('p&ss'), file);
        assert.ok(!kept.includes(Buffer.from(secret).toString('base64')), file);
      }
      await scene.run();
      assert.deepEqual(cursors.slice(2), [next]);
    });
  });

  it('is not kept as part of a cursor that escapes it in its own way: the run fails', async () => {
    await atStandIn(declaration, { TOKEN: secret }, async (site, scene, folder) => {
      const next = 'after %70%26%73%73%2f%77%3D%72%64%2b%31';
      site.tell(JSON.stringify({ items: [{ id: 1 }], next }));
      const { outcomes } = await scene.run();
      assert.equal(outcomes[0]?.status, 'failed');
      assert.match(
        String(outcomes[0]?.reason),
        /the cursor after \$\{TOKEN\|escaped\} has a secret/,
      );
      for (const file of ['ingest.db', 'ingest.db-wal']) {
        assert.ok(!(await readFile(join(folder, file), 'latin1')).includes('%70%26'), file);
      }
    });
  });

  it('is in no output of a command and in no file', async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'ingest-secret-'));
    await using site = await StandIn.open();
    const base64 = Buffer.from(secret).toString('base64');
    const forms = [secret, base64, encodeURIComponent(secret)];
    const told = `${forms.join(' ')} ${Buffer.from(`x:${secret}`).toString('base64')}`;
    let asked = 0;
    site.serve = (_request, response) => {
      asked += 1;
      const body = JSON.stringify({ items: [{ id: asked }], next: `${asked} ${told}` });
      if (asked % 3 === 0) response.writeHead(401).end(told);
      else response.end(body);
    };
    const [source, data] = [join(folder.path, 'posts.json'), join(folder.path, 'data')];
    await writeFile(source, JSON.stringify({ ...declaration, address: `${site.url}/posts` }));
    const place = ['--data', data, '--source', source];
    let said = '';
    for (const words of [
      ['run', ...place],
      ['run', '--json', ...place],
      ['status', ...place],
      ['source', 'check', source, '--data', data],
    ]) {
      const { stdout, stderr } = await new IngestCommand(words, { TOKEN: secret }).ended;
      said += stdout + stderr;
    }
    assert.match(said, /401 \$\{TOKEN\}/);
    const names = await readdir(data, { recursive: true, withFileTypes: true });
    const paths = names.filter((one) => one.isFile()).map((one) => join(one.parentPath, one.name));
    assert.ok(paths.length > 1, 'nothing was stored');
    const kept = await Promise.all(paths.map((path) => readFile(path, 'latin1')));
    for (const form of ['p&ss', 'p%26ss', base64.slice(0, 8), 'NzL3c9cmQrM']) {
      for (const text of [said, ...kept]) assert.ok(!text.includes(form), form);
    }
  });

  it('is named by its variable if a header cannot have it', async () => {
    const work = async () => {};
    await assert.rejects(atStandIn(declaration, { TOKEN: 'word\n' }, work), {
      code: 'SOURCE_INVALID',
      message: /^posts: headers.authorization: the variable TOKEN has a line break or another/,
    });
  });
});
