import type { Migration } from 'spillway-sql';

/** The migrations for both databases: only autoincrement and the type of bytes differ. */
function forBoth(...statements: readonly string[]): Migration['statements'] {
  const written = (identity: string, bytes: string) =>
    statements.map((text) => text.replaceAll('$identity', identity).replaceAll('$bytes', bytes));
  return {
    sqlite: written('integer primary key autoincrement', 'blob'),
    postgres: written('integer generated always as identity primary key', 'bytea'),
  };
}

/** The characters of a text that can be searched for; Postgres allows 1 MB of words. */
const indexedCharacters = 100_000;
/** The words of an article as Postgres has them. A query must say it in the same words. */
export const searchVector: string = `to_tsvector('simple'::regconfig,
  left(articles.title || ' ' || articles.text, ${indexedCharacters}))`;
const byTime =
  'create index articles_by_time on articles (coalesce(published_at, added_at) desc, id)';

/** Times are UNIX milliseconds in `double precision`; truth values are 0 and 1. */
export const rankerMigrations: readonly Migration[] = [
  {
    number: 1,
    name: 'users and articles',
    statements: [
      `create table users (id text primary key, name text not null unique,
       key_hash text not null unique, created_at double precision not null)`,
      `create table articles (id text primary key, url text not null unique,
       given_url text not null, title text not null, text text not null, source text not null,
       published_at double precision, fetched_at double precision, etag text, last_modified text,
       unavailable text, added_at double precision not null)`,
      'create index articles_by_age on articles (added_at, id)',
      'create table aliases (id text primary key, article_id text not null)',
      'create index aliases_by_article on aliases (article_id)',
    ],
  },
  {
    number: 2,
    name: 'vectors',
    statements: forBoth(
      `create table vectors (article_id text primary key, model text not null,
       precision text not null, dimension integer not null, words integer not null,
       sentence_count integer not null, data $bytes not null, checksum text not null,
       made_at double precision not null)`,
      `create table sentences (article_id text primary key, chunks text not null,
       data $bytes not null)`,
    ),
  },
  {
    number: 3,
    name: 'ratings',
    statements: forBoth(
      `create table ratings (user_id text not null, article_id text not null,
       score double precision not null, rated_at double precision not null,
       primary key (user_id, article_id))`,
      `create table corrections (id $identity, user_id text not null, article_id text not null,
       score double precision not null, predicted double precision, is_first integer not null,
       created_at double precision not null)`,
      'create index corrections_by_user on corrections (user_id, id)',
    ),
  },
  {
    number: 4,
    name: 'tastes and trainings',
    statements: forBoth(
      `create table tastes (user_id text primary key, reserved double precision not null,
       model text not null, data $bytes not null, checksum text not null,
       saved_at double precision not null)`,
      `create table trainings (id $identity, user_id text not null, kind text not null,
       started_at double precision not null, ended_at double precision,
       samples integer not null, epochs integer not null, status text not null, errors text,
       version double precision, error text)`,
      'create index trainings_by_user on trainings (user_id, id)',
    ),
  },
  {
    number: 5,
    name: 'feeds and rules',
    statements: [
      `create table feeds (id text primary key, url text not null unique, title text not null,
       site_url text, etag text, last_modified text, fetched_at double precision,
       next_at double precision not null, failure text, failures integer not null)`,
      'create index feeds_by_turn on feeds (next_at, id)',
      `create table subscriptions (user_id text not null, feed_id text not null,
       folder text not null, added_at double precision not null,
       primary key (user_id, feed_id))`,
      'create index subscriptions_by_feed on subscriptions (feed_id)',
      `create table feed_articles (feed_id text not null, article_id text not null,
       found_at double precision not null, primary key (feed_id, article_id))`,
      'create index feed_articles_by_article on feed_articles (article_id)',
      `create table shelf (user_id text not null, article_id text not null,
       added_at double precision not null, primary key (user_id, article_id))`,
      `create table reads (user_id text not null, article_id text not null,
       read_at double precision not null, primary key (user_id, article_id))`,
      `create table rules (id text primary key, user_id text not null, kind text not null,
       field text not null, value text not null, points double precision not null,
       created_at double precision not null)`,
      'create index rules_by_user on rules (user_id, created_at, id)',
      'create table documents (name text primary key, value text not null)',
    ],
  },
  {
    number: 6,
    name: 'a reader: marks, names of feeds, authors; vectors of title, text and words',
    statements: [
      // They are made again from the texts, in the background.
      'delete from vectors',
      'delete from sentences',
      'alter table articles add column author text',
      'alter table articles add column from_feed integer not null default 0',
      'alter table subscriptions add column title text',
      'alter table subscriptions add column credentials text',
      'alter table subscriptions add column full_text integer not null default 0',
      `create table marks (user_id text not null, article_id text not null, kind text not null,
       marked_at double precision not null, primary key (user_id, article_id, kind))`,
      'create index marks_by_article on marks (article_id)',
    ],
  },
  {
    number: 7,
    name: 'lists by time, and a full-text index',
    statements: {
      sqlite: [
        byTime,
        // Numbers of their own: a VACUUM may change the rowids of articles.
        `create table article_numbers (number integer primary key,
         article_id text not null unique)`,
        `create virtual table article_words using fts5(title, text, content='',
         contentless_delete=1, tokenize='unicode61 remove_diacritics 2')`,
        'insert into article_numbers (article_id) select id from articles order by added_at',
        `insert into article_words (rowid, title, text)
         select number, title, substr(text, 1, ${indexedCharacters})
         from article_numbers join articles on articles.id = article_id`,
        `create trigger article_words_added after insert on articles begin
           insert into article_numbers (article_id) values (new.id);
           insert into article_words (rowid, title, text) values (last_insert_rowid(),
             new.title, substr(new.text, 1, ${indexedCharacters}));
         end`,
        `create trigger article_words_changed after update of title, text on articles
         when old.title != new.title or old.text != new.text begin
           update article_words set title = new.title,
             text = substr(new.text, 1, ${indexedCharacters})
             where rowid = (select number from article_numbers where article_id = new.id);
         end`,
        `create trigger article_words_gone after delete on articles begin
           delete from article_words
             where rowid = (select number from article_numbers where article_id = old.id);
           delete from article_numbers where article_id = old.id;
         end`,
      ],
      postgres: [byTime, `create index articles_by_word on articles using gin (${searchVector})`],
    },
  },
  {
    number: 8,
    name: 'pictures and tags of articles, outlines and credentials of feeds',
    statements: [
      'alter table articles add column images text',
      'alter table articles add column tags text',
      'alter table subscriptions add column outline text',
      'alter table subscriptions drop column credentials',
      // A table of its own, which backups leave out.
      `create table feed_credentials (feed_id text primary key, header text not null,
       value text not null)`,
    ],
  },
  {
    number: 9,
    name: 'texts that entries of a feed share',
    statements: ['alter table articles add column shared_text text'],
  },
  {
    number: 10,
    name: 'articles without vectors, found by indexes alone',
    statements: [
      'create index vectors_by_model on vectors (model, precision, dimension, article_id)',
    ],
  },
];
