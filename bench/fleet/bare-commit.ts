import { mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { median } from '../contest.ts';

/** Milliseconds between two commits: about as often as the server commits. */
const pauseMs = 8;

/** The minimum for a durable change: SQLite alone, one row of a task, one fsync. */
export async function contestant(run: string, quick: boolean): Promise<Record<string, number>> {
  if (!run.includes('a second')) return {};
  await using folder = await mkdtempDisposable(join(tmpdir(), 'fleet-bench-'));
  using database = new DatabaseSync(join(folder.path, 'bare.db'));
  database.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL');
  database.exec('CREATE TABLE tasks (id INTEGER PRIMARY KEY, record TEXT)');
  const statement = database.prepare('INSERT INTO tasks (record) VALUES (?)');
  const us: number[] = [];
  for (let at = 0; at < (quick ? 100 : 500); at += 1) {
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
    const startedAt = performance.now();
    statement.run(String(at).padEnd(600));
    us.push((performance.now() - startedAt) * 1_000);
  }
  return { 'p50 of update_task': median(us), 'p50 of request_task': median(us) };
}
