// Slow: each case opens a whole fleet.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { readBookList } from '../src/files/books.ts';
import { FleetSite, info, temporaryFolder } from './fixtures/fleet-site.ts';

const white = 'rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1';
const black = 'rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq - 0 1';
const sriOf = (text: string) => createHash('sha384').update(text).digest('base64');

describe('books', () => {
  it('are known with the checksum that workers compare, whatever their line ends', async () => {
    await using stack = new AsyncDisposableStack();
    const folder = await temporaryFolder(stack);
    const { books } = stack.use(await FleetSite.open()).fleet.files;
    const text = `${white}\n${black}\n${white}\n`;
    const wanted = { total: 3, white: 2, black: 1, min_depth: null, max_depth: null };
    const many = text.repeat(4000);
    for (const [name, lines, times] of [
      ['a.epd', text, 1],
      ['b.epd', text.replaceAll('\n', '\r\n'), 1],
      ['c.epd', text.replaceAll('\n', '\r'), 1],
      ['d.epd', many.replaceAll('\n', '\r\n'), 4000],
    ] as const) {
      await writeFile(join(folder, name), lines);
      const { sri, total, name: added } = await books.add(join(folder, name));
      assert.deepEqual([added, total], [name, 3 * times]);
      assert.equal(sri, sriOf(times === 1 ? text : many), name);
      assert.equal(books.sri(name), sri);
    }
    // A line that ends where the first piece of the file does, and begins the next one.
    const cut = `${'x'.repeat(65_535)}\n${white}\n`;
    await writeFile(join(folder, 'cut.epd'), cut.replaceAll('\n', '\r\n'));
    assert.equal((await books.add(join(folder, 'cut.epd'))).sri, sriOf(cut));
    assert.deepEqual(books.books.get('a.epd'), { ...wanted, sri: sriOf(text) });
    await writeFile(join(folder, 'e.pgn'), '[Event "1"]\n\n1. e4 *\n\n[Event "2"]\n\n1. d4 *\n');
    assert.equal((await books.add(join(folder, 'e.pgn'))).total, 2);
  });

  it('refuse what is no book', async () => {
    await using stack = new AsyncDisposableStack();
    const folder = await temporaryFolder(stack);
    const { books } = stack.use(await FleetSite.open()).fleet.files;
    for (const [name, text] of [
      ['a.txt', white],
      ['empty.epd', ''],
      ['prose.epd', 'once upon a time'],
    ] as const) {
      await writeFile(join(folder, name), text);
      await assert.rejects(books.add(join(folder, name)), { code: 'REQUEST_REFUSED' }, name);
    }
    const good = { total: 3, white: 2, black: 1, min_depth: null, max_depth: 8, sri: sriOf('x') };
    for (const bad of [
      [],
      null,
      { 'a.epd': null },
      { 'a.epd': { ...good, total: 4 } },
      { 'a.epd': { ...good, sri: 'x' } },
      { 'a.epd': { ...good, white: -1, black: 4 } },
      { '../a.epd': good },
    ]) {
      const refused = { code: 'REQUEST_REFUSED' };
      assert.throws(() => readBookList(bad), refused, JSON.stringify(bad));
    }
    await books.store(readBookList({ 'a.epd': good }));
    assert.deepEqual([...books.books.keys()], ['a.epd']);
  });

  it('are taken up from the folder at the start, stay known, and go to workers', async () => {
    await using stack = new AsyncDisposableStack();
    const folder = await temporaryFolder(stack);
    const database = `sqlite:${join(folder, 'fleet.db')}`;
    await mkdir(join(folder, 'books'));
    await writeFile(join(folder, 'books', 'local.epd'), `${white}\n`);
    const entry = { total: 1, white: 1, black: 0, min_depth: 1, max_depth: 2, sri: sriOf('l') };
    const list = { 'listed.epd': entry };
    await writeFile(join(folder, 'books', 'books.json'), JSON.stringify(list));
    const first = await FleetSite.open({ database, folder });
    assert.equal(first.fleet.files.books.sri('local.epd'), sriOf(`${white}\n`));
    await first[Symbol.asyncDispose]();
    const site = stack.use(await FleetSite.open({ database }));
    assert.deepEqual(site.fleet.files.books.books.get('listed.epd'), entry);
    await site.run({ book: 'listed.epd' });
    const access = { password: 'secret', worker_info: info() };
    const { json } = await site.ask('request_task', access);
    assert.equal(json.run.args.book_sri, entry.sri);
  });
});
