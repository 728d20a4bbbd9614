import type { FastifyPluginAsync } from 'fastify';
import { httpError } from 'spillway-http';
import type { Reader } from '../ranking/reader.ts';
import type { ReaderFeed } from '../storage/feeds.ts';
import type { RankerStorage } from '../storage/ranker-storage.ts';
import { type NewRule, type RuleField, ruleFields } from '../storage/rules.ts';
import type { Desks } from './desks.ts';
import { frame } from './frame.ts';
import { answerForm, backOf, userOf } from './reader-session.ts';
import { checkRule } from './rule-book.ts';
import { rulesView, ruleText } from './rules-page.ts';

export interface RuleRoutesOptions {
  readonly reader: Reader;
  readonly storage: RankerStorage;
  readonly desks: Desks;
}

const kind = { enum: ['mute', 'boost'] } as const;
const field = { enum: ruleFields } as const;
const rule = {
  type: 'object',
  required: ['kind', 'field', 'value'],
  properties: { kind, field, value: { type: 'string' }, points: { type: 'string' } },
} as const;
const quick = {
  type: 'object',
  required: ['rule'],
  properties: { rule: { type: 'string', maxLength: 500 } },
} as const;
const params = {
  type: 'object',
  properties: { id: { type: 'string', pattern: '^[\\w-]{1,64}$' } },
} as const;

/** The parts of an article that its own buttons make rules on. */
const quickFields: readonly RuleField[] = ['source', 'feed', 'author', 'tag'];

/** The form of a new rule. */
interface RuleForm extends Pick<NewRule, 'kind' | 'field' | 'value'> {
  readonly points?: string | undefined;
}

/** Seeing, adding and removing rules. */
export const ruleRoutes: FastifyPluginAsync<RuleRoutesOptions> = async (
  app,
  { reader, storage, desks },
) => {
  const add = async (userId: string, given: NewRule, signal: AbortSignal): Promise<string> => {
    const feeds = await storage.feeds.list(userId, signal);
    const wanted = checkRule(given.field === 'feed' ? ofFeed(given, feeds) : given);
    await reader.addRule(userId, wanted, signal);
    await desks.open(userId).refresh();
    return `${ruleText(wanted, feeds)}: added.`;
  };

  app.get('/reader/rules', async (request, reply) => {
    const { id, name } = userOf(request);
    const rules = await storage.rules.list(id, request.permit.signal);
    const given = Object(request.query);
    const slow = desks.find(id)?.slowRules ?? [];
    const token = reply.csrfToken();
    const [wanted, value] = [given.field, given.value].map((text) => String(text ?? ''));
    const form = { field: wanted ?? '', value: (value ?? '').slice(0, 200) };
    const feeds = await storage.feeds.list(id, request.permit.signal);
    const body = rulesView({ rules, slow, token, feeds, ...form });
    return frame(reply, { title: 'Rules', name, body });
  });

  app.post<{ Body: RuleForm }>('/reader/rules', { schema: { body: rule } }, (request, reply) => {
    const { id } = userOf(request);
    const { points = '0', ...rest } = request.body;
    return answerForm(reply, '/reader/rules', () => {
      const { kind, field, value } = rest;
      return add(id, { kind, field, value, points: Number(points) }, request.permit.signal);
    });
  });

  app.post<{ Body: { rule: string } }>(
    '/reader/rules/quick',
    { schema: { body: quick } },
    (request, reply) => {
      const { id } = userOf(request);
      return answerForm(reply, backOf(request.body), () =>
        add(id, quickRule(request.body.rule), request.permit.signal),
      );
    },
  );

  app.post<{ Params: { id: string } }>(
    '/reader/rules/:id/remove',
    { schema: { params } },
    (request, reply) => {
      const { id } = userOf(request);
      return answerForm(reply, '/reader/rules', async () => {
        await reader.removeRule(id, request.params.id, request.permit.signal);
        await desks.open(id).refresh();
        return 'The rule is gone.';
      });
    },
  );
};

/** A rule as the buttons of an article say it: `[kind, field, value, points]`. */
function quickRule(text: string): NewRule {
  const [kind, field, value, points] = jsonList(text);
  const isRule =
    (kind === 'mute' || kind === 'boost') &&
    quickFields.some((known) => known === field) &&
    typeof value === 'string' &&
    typeof points === 'number';
  if (!isRule) throw httpError('INPUT_INVALID', 'not a rule about a source');
  return { kind, field: field as RuleField, value, points };
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
