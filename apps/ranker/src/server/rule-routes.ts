import type { FastifyPluginAsync } from 'fastify';
import { httpError } from 'spillway-http';
import { checkRule } from '../reader/rule-set.ts';
import { ruleText } from '../reader/rules-page.ts';
import type { ReaderFeed } from '../storage/feeds.ts';
import { type NewRule, ruleFields } from '../storage/rules.ts';
import { operate } from './access.ts';
import type { RankerContext } from './context.ts';
import { type IdInPath, idSchema } from './request-schemas.ts';

const rule = {
  type: 'object',
  required: ['kind', 'field', 'value'],
  properties: {
    kind: { enum: ['mute', 'boost'] },
    field: { enum: ruleFields },
    value: { type: 'string', minLength: 1, maxLength: 200 },
    points: { type: 'number', minimum: -9, maximum: 9, default: 0 },
  },
  additionalProperties: false,
};
const quick = {
  type: 'object',
  required: ['rule'],
  properties: { rule: { type: 'string', maxLength: 500 } },
} as const;

/** The page of rules, where forms lead back to. */
const page = '/reader/rules';

/** A user's mutes and boosts. */
export const ruleRoutes: FastifyPluginAsync<RankerContext> = async (app, options) => {
  const { storage, lists, lanes, changes, clock } = options;
  const config = { lane: lanes.corrections } as const;

  const add = async (userId: string, given: NewRule, signal: AbortSignal) => {
    const feeds = await storage.feeds.list(userId, signal);
    const wanted = checkRule(given.field === 'feed' ? ofFeed(given, feeds) : given);
    await storage.rules.add(userId, wanted, clock.now(), signal);
    changes.tell(userId, 'all');
    await lists.find(userId)?.refresh();
    const result = { rules: await storage.rules.list(userId, signal) };
    return { told: `${ruleText(wanted, feeds)}: added.`, status: 201, result };
  };

  app.get(
    '/rules',
    { config: { lane: lanes.read } },
    async ({ rankerUser, permit: { signal } }) => {
      return { rules: await storage.rules.list(rankerUser.id, signal) };
    },
  );
  app.post<{ Body: NewRule }>('/rules', { config, schema: { body: rule } }, ({ body }, reply) =>
    operate(reply, page, (userId, signal) => add(userId, body, signal)),
  );
  // The buttons of an article say a whole rule by one value.
  app.post<{ Body: { readonly rule: string } }>(
    '/rules/quick',
    { config, schema: { body: quick } },
    ({ body }, reply) =>
      operate(reply, '/reader', (userId, signal) => add(userId, quickRule(body.rule), signal)),
  );
  for (const [method, url] of [
    ['DELETE', '/rules/:id'],
    ['POST', '/rules/:id/remove'],
  ] as const) {
    app.route<IdInPath>({
      method,
      url,
      config,
      schema: { params: idSchema },
      handler: ({ params: { id } }, reply) =>
        operate(reply, page, async (userId, signal) => {
          await storage.rules.remove(userId, id, signal);
          changes.tell(userId, 'all');
          await lists.find(userId)?.refresh();
          return { told: 'The rule is gone.', result: { removed: id } };
        }),
    });
  }
};

/** A rule as the buttons of an article say it: `[kind, field, value, points]`. */
function quickRule(text: string): NewRule {
  const [kind, field, value, points] = jsonList(text);
  const known = ['source', 'feed', 'author', 'tag'] as const;
  const part = known.find((one) => one === field);
  const isRule = (kind === 'mute' || kind === 'boost') && typeof points === 'number';
  if (!isRule || part === undefined || typeof value !== 'string') {
    throw httpError('INPUT_INVALID', 'not a rule about a source');
  }
  return { kind, field: part, value, points };
}

function jsonList(text: string): unknown[] {
  try {
    const list: unknown = JSON.parse(text);
    return Array.isArray(list) ? list : [];
  } catch {
    return [];
  }
}

/** A rule on a feed that is named by its id, its title or its address. */
function ofFeed(rule: NewRule, feeds: readonly ReaderFeed[]): NewRule {
  const name = rule.value.trim();
  const named = feeds.find(({ id, title, url }) => [id, title, url].includes(name));
  if (named === undefined) throw httpError('INPUT_INVALID', `none of your feeds is called ${name}`);
  return { ...rule, value: named.id };
}
