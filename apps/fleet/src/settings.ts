import { join } from 'node:path';
import { flag, number, type SettingsOf, SettingsReader, text, words } from 'spillway-cli';

/** All that can be set when a server or a command starts. */
export type Settings = SettingsOf<typeof settingRules>;

const url = {
  value: '<url>',
  rule: 'an address like https://example.org, without a slash at its end',
  pattern: /^(https?:\/\/\S*[^/\s])?$/,
} as const;
/** The address of others, which may hold a password. */
const foreignUrl = { ...url, hides: 'password' } as const;

/** Each setting in the order in which it is shown. */
const settingRules = {
  data: text('where everything is kept (default ./data/fleet)', {
    value: '<folder>',
    rule: 'the path of a folder',
    pattern: /./,
    absent: 'data/fleet',
    isPath: true,
  }),
  database: text('sqlite:<file> or postgres://… (default sqlite:<data>/fleet.db)', {
    value: '<url>',
    rule: 'sqlite:<file> or postgres://user:password@host:port/database',
    pattern: /^sqlite:.|^postgres(ql)?:\/\/./,
    absent: '',
    absentIn: (data) => `sqlite:${join(data, 'fleet.db')}`,
    hides: 'password',
  }),
  databaseConnections: number('connections of a process to Postgres at most', {
    absent: 10,
    min: 1,
    max: 1_000,
  }),
  host: text('address to listen at (default 127.0.0.1)', {
    value: '<address>',
    rule: 'an address or a name',
    pattern: /^[\w.:-]+$/,
    absent: '127.0.0.1',
  }),
  port: number('port to listen at, 0 for a free one', { absent: 6543, min: 0, max: 65_535 }),
  publicUrl: text('where workers reach it (default: as they asked)', { ...url, absent: undefined }),
  operatorPort: number('a second port for operators, who send the token (default: none)', {
    absent: undefined,
    min: 0,
    max: 65_535,
  }),
  operatorToken: text('the token for that port; at least 16 characters', {
    value: '<word>',
    rule: 'a word of 16 to 1024 characters',
    pattern: /^(\S{16,1024})?$/,
    absent: undefined,
    hides: 'all',
  }),
  trustProxy: words('proxies whose X-Forwarded-For is believed, with commas (default: none)', {
    value: '<addresses>',
    rule: 'addresses or nets like 10.0.0.0/8',
    pattern: /^[0-9a-f.:/]+$|^loopback$/,
  }),
  netsUrl: text('where nets come from that are not here (default: nowhere)', {
    ...foreignUrl,
    absent: undefined,
  }),
  github: flag('whether GitHub is asked for books, and about new runs', true),
  foreignRepos: flag('whether accounts since July 2025 may test forks of other engines', false),
  githubUrl: text('its API, or a mirror (default https://api.github.com)', {
    ...foreignUrl,
    absent: 'https://api.github.com',
  }),
  githubRawUrl: text('its files, or a mirror (default https://raw.githubusercontent.com)', {
    ...foreignUrl,
    absent: 'https://raw.githubusercontent.com',
  }),
  githubToken: text('a token for GitHub (default: none)', {
    value: '<word>',
    rule: 'a word',
    pattern: /^\S*$/,
    absent: undefined,
    hides: 'all',
  }),
  log: flag('warnings as lines of JSON on stderr', false),
};

/** Reads the settings from flags, variables and the file in the data folder. */
export const settingsReader: SettingsReader<Settings> = new SettingsReader({
  program: 'fleet',
  rules: settingRules,
  otherVariables: ['FLEET_PASSWORD'],
});
