import { randomBytes } from 'node:crypto';
import type { Clock } from 'spillway';
import type { Database } from 'spillway-sql';
import { Articles } from './articles.ts';
import { Feeds } from './feeds.ts';
import { rankerMigrations } from './migrations.ts';
import type { RankerSchema } from './ranker-schema.ts';
import { Ratings } from './ratings.ts';
import type { Fenced } from './records.ts';
import { Rules } from './rules.ts';
import { TrainedTastes } from './trained-tastes.ts';
import { Trainings } from './trainings.ts';
import { UserArticles } from './user-articles.ts';
import { Users } from './users.ts';
import { Vectors } from './vectors.ts';

export interface RankerStorageOptions {
  readonly database: Database<RankerSchema>;
  /** Its `now` is UNIX time in milliseconds. */
  readonly clock: Clock;
  /** Runs the writes that only one ranker at a time may make. @default the database */
  readonly fenced?: Fenced | undefined;
}

/** Everything that must survive the end of the process. */
export class RankerStorage {
  readonly database: Database<RankerSchema>;
  readonly users: Users;
  readonly articles: Articles;
  readonly vectors: Vectors;
  readonly ratings: Ratings;
  readonly tastes: TrainedTastes;
  readonly trainings: Trainings;
  readonly feeds: Feeds;
  readonly userArticles: UserArticles;
  readonly rules: Rules;

  constructor({ database, clock, fenced = database }: RankerStorageOptions) {
    this.database = database;
    this.users = new Users(database, clock);
    this.articles = new Articles(database);
    this.vectors = new Vectors(database);
    this.ratings = new Ratings(database, fenced);
    this.tastes = new TrainedTastes(database, fenced);
    this.trainings = new Trainings(database);
    this.feeds = new Feeds(database);
    this.userArticles = new UserArticles(database);
    this.rules = new Rules(database);
  }

  migrate(signal?: AbortSignal): Promise<number> {
    return this.database.migrate(rankerMigrations, { program: 'ranker', signal });
  }

  /** A random text under a name, made when it is first asked for: the same after a restart. */
  async secret(name: string): Promise<string> {
    const { kysely } = this.database;
    const value = JSON.stringify(randomBytes(32).toString('base64url'));
    const made = kysely.insertInto('documents').values({ name, value });
    await made.onConflict((conflict) => conflict.doNothing()).execute();
    const kept = kysely.selectFrom('documents').select('value').where('name', '=', name);
    return JSON.parse((await kept.executeTakeFirstOrThrow()).value);
  }
}
