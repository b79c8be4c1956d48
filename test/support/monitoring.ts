// The alerts and the dashboard of `deploy/`, and what their expressions ask of metrics.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { SyntaxNode } from '@lezer/common';
import { parser } from '@prometheus-io/lezer-promql';
import { parse } from 'yaml';
import { ROOT } from './service.js';

export interface AlertRule {
  readonly alert: string;
  readonly expr: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
}

export interface Panel {
  readonly id: number;
  readonly title: string;
  readonly type: string;
  readonly description?: string;
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
  readonly targets?: readonly { readonly expr: string; readonly legendFormat: string }[];
}

const text = (...path: string[]): string => readFileSync(join(ROOT, 'deploy', ...path), 'utf8');

export const alertRules = (): readonly AlertRule[] =>
  (parse(text('helm', 'statefold', 'alerts.yml')) as { groups: { rules: AlertRule[] }[] }).groups.flatMap(
    ({ rules }) => rules,
  );

export const dashboard = (): { readonly panels: readonly Panel[] } =>
  JSON.parse(text('grafana', 'dashboards', 'statefold.json')) as { panels: Panel[] };

/** A metric that an expression asks for, and the labels that it matches or groups by. */
export interface Selector {
  readonly metric: string;
  readonly labels: readonly string[];
}

/** @throws Error where the expression is none, with its place */
export function selectorsOf(expression: string): readonly Selector[] {
  // Variables of Grafana stand where PromQL has a duration.
  const source = expression.replaceAll('$__rate_interval', '5m');
  const of = ({ from, to }: { readonly from: number; readonly to: number }): string => source.slice(from, to);
  const selectors: Selector[] = [];
  const tree = parser.parse(source);
  tree.iterate({
    enter: (node) => {
      if (node.type.isError) throw new Error(`no PromQL at ${node.from} of ${expression}`);
      if (node.name !== 'VectorSelector') return;
      const metric = node.node.getChild('Identifier');
      if (metric === null) throw new Error(`a selector without a metric in ${expression}`);
      const labels: string[] = [];
      node.node.cursor().iterate((inner) => {
        if (inner.name === 'LabelName') labels.push(of(inner));
      });
      for (let above: SyntaxNode | null = node.node; above !== null; above = above.parent)
        if (above.name === 'AggregateExpr')
          for (const label of above
            .getChild('AggregateModifier')
            ?.getChild('GroupingLabels')
            ?.getChildren('LabelName') ?? [])
            labels.push(of(label));
      selectors.push({ metric: of(metric), labels: [...new Set(labels)] });
    },
  });
  return selectors;
}
