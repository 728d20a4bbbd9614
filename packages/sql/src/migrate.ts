import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { type RunOptions, SpillwayError } from 'spillway';
import type { Engine, RunSql } from './connection.ts';

/** The engines that a database runs on. */
export type DatabaseKind = 'sqlite' | 'postgres';

/** One change of the tables. A migration that was released must never be edited. */
export interface Migration {
  /** 1, 2, 3 and so on, without gaps. */
  readonly number: number;
  readonly name: string;
  /** SQL statements, in order; two lists where the two databases differ. */
  readonly statements: readonly string[] | Readonly<Record<DatabaseKind, readonly string[]>>;
}

export interface MigrateOptions extends RunOptions {
  /** Name of the program that owns the tables; another program is refused. @default none */
  readonly program?: string | undefined;
}

interface Target {
  readonly engine: Engine<unknown>;
  readonly kind: DatabaseKind;
  /** The table of the migrations that have been applied. */
  readonly table: string;
}

/** Times that one call may lose the race to create the table of migrations. */
const racesMax = 20;

/**
 * Applies the migrations that have not been applied, each in a transaction of its own, while other
 * processes may do the same; gives how many this call applied.
 */
export async function migrate(
  { engine, kind, table }: Target,
  migrations: readonly Migration[],
  options: MigrateOptions,
): Promise<number> {
  for (const [at, { number }] of migrations.entries()) {
    assert(number === at + 1, `migrations must be numbered from 1 without gaps, got ${number}`);
  }
  const step = async (run: RunSql) => {
    if (options.program !== undefined) await demandOwner(run, kind, options.program);
    return applyNext(run, { kind, table }, migrations);
  };
  let applied = 0;
  for (let overtaken = 0; ; ) {
    try {
      if (!(await engine.exclusively(step, options))) return applied;
      applied += 1;
    } catch (error) {
      // Some relatives of Postgres have no advisory locks: there the primary key shows a race.
      overtaken += 1;
      const isRace = Object(error).code === 'DATABASE_CONSTRAINT';
      if (!isRace || overtaken > migrations.length + racesMax) throw error;
    }
  }
}

/** Refuses a database of another program; the first program that migrates it is noted. */
async function demandOwner(run: RunSql, kind: DatabaseKind, program: string): Promise<void> {
  await run('create table if not exists spillway_program (name text primary key)');
  const [owner] = await run('select name from spillway_program');
  if (owner?.name === program) return;
  if (owner !== undefined) {
    const message = `the database belongs to ${owner.name}: ${program} needs another one`;
    throw new SpillwayError('DATABASE_MIGRATION', message);
  }
  const place = kind === 'postgres' ? '$1' : '?';
  await run(`insert into spillway_program (name) values (${place})`, [program]);
}

async function applyNext(
  run: RunSql,
  { kind, table }: Omit<Target, 'engine'>,
  migrations: readonly Migration[],
): Promise<boolean> {
  await run(
    `create table if not exists ${table} (number integer primary key, name text not null, ` +
      'checksum text not null)',
  );
  const rows = await run(`select number, name, checksum from ${table} order by number`);
  for (const [at, row] of rows.entries()) compare(row, migrations[at], kind);
  const next = migrations[rows.length];
  if (next === undefined) return false;
  const places = kind === 'postgres' ? '$1, $2, $3' : '?, ?, ?';
  const row = [next.number, next.name, checksum(next, kind)];
  // The row is inserted first: another process with the same migration waits here, then fails.
  await run(`insert into ${table} (number, name, checksum) values (${places})`, row);
  for (const statement of statementsOf(next, kind)) {
    await run(statement).catch((cause: unknown) => {
      const why = cause instanceof Error ? cause.message : String(cause);
      const message = `migration ${next.number} (${next.name}) failed: ${why}`;
      if (cause instanceof SpillwayError) throw new SpillwayError(cause, message, { cause });
      throw new SpillwayError('DATABASE_MIGRATION', message, { cause });
    });
  }
  return true;
}

function compare(
  row: { readonly [column in 'number' | 'name' | 'checksum']?: unknown },
  migration: Migration | undefined,
  kind: DatabaseKind,
): void {
  const applied = `migration ${row.number} (${row.name})`;
  if (migration === undefined) {
    const message = `${applied} was applied but is not known here: start the newer version`;
    throw new SpillwayError('DATABASE_MIGRATION', message);
  }
  if (row.number === 1 && row.name !== migration.name) {
    const message = `the database is of another program, whose first tables are "${row.name}"`;
    throw new SpillwayError('DATABASE_MIGRATION', message);
  }
  if (row.name === migration.name && row.checksum === checksum(migration, kind)) return;
  throw new SpillwayError('DATABASE_MIGRATION', `${applied} has changed since it was applied`);
}

function statementsOf({ statements }: Migration, kind: DatabaseKind): readonly string[] {
  return 'postgres' in statements ? statements[kind] : statements;
}

function checksum(migration: Migration, kind: DatabaseKind): string {
  const text = JSON.stringify(statementsOf(migration, kind));
  return createHash('sha256').update(text).digest('hex');
}
