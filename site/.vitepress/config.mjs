// The documentation as a site: the Markdown of the repository as it stands, with search. `npm run site` builds it into dist/site.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitepress';

const root = fileURLToPath(new URL('../..', import.meta.url));

/** The pages of a folder with the titles that they have themselves. */
function pagesOf(folder) {
  return readdirSync(join(root, folder))
    .filter((name) => name.endsWith('.md') && name !== 'README.md')
    .map((name) => {
      const [, title = name] = /^# (.+)$/m.exec(readFileSync(join(root, folder, name), 'utf8')) ?? [];
      return { text: title.replaceAll('`', ''), link: `/${folder}/${name.slice(0, -'.md'.length)}` };
    })
    .sort((a, b) => (a.text < b.text ? -1 : 1));
}

export default defineConfig({
  title: 'Statefold',
  description: 'A multi-tenant event store with computed state, backed by Kafka',
  head: [['link', { rel: 'icon', href: 'data:,' }]],
  srcDir: '..',
  srcExclude: ['**/node_modules/**', 'dist/**', '.build/**', 'console/**', 'dotnet/**', 'test/**', 'CHANGELOG.md'],
  rewrites: { 'site/index.md': 'index.md', 'docs/decisions/README.md': 'docs/decisions/index.md' },
  outDir: '../dist/site',
  cleanUrls: true,
  // Folders of the repository that pages point to are no pages; every other link has to be there.
  ignoreDeadLinks: [
    /\/(schemas|samples|packages|connectors|scripts|test|src|deploy)\//,
    /\.(json|sql|yml|yaml|cs|ts)$/,
    /\/LICENSE$/,
    /^\.\/page$/,
  ],
  markdown: { html: false },
  // The pages lie outside of this folder, where Vue is not found by itself.
  vite: {
    resolve: {
      alias: [
        { find: /^vue$/, replacement: join(root, 'site/node_modules/vue/dist/vue.runtime.esm-bundler.js') },
        {
          find: 'vue/server-renderer',
          replacement: join(root, 'site/node_modules/@vue/server-renderer/dist/server-renderer.esm-bundler.js'),
        },
      ],
    },
  },
  themeConfig: {
    search: { provider: 'local' },
    outline: [2, 3],
    nav: [
      { text: 'How to', link: '/docs/how-to/produce-events', activeMatch: '/docs/how-to/' },
      { text: 'Reference', link: '/docs/reference/settings', activeMatch: '/docs/reference/' },
      { text: 'Architecture', link: '/docs/architecture' },
      { text: 'Decisions', link: '/docs/decisions/' },
    ],
    sidebar: [
      {
        text: 'Start',
        items: [
          { text: 'Statefold', link: '/README' },
          { text: 'Architecture', link: '/docs/architecture' },
          { text: 'Glossary', link: '/docs/glossary' },
          { text: 'Contributing', link: '/CONTRIBUTING' },
        ],
      },
      { text: 'How to', items: pagesOf('docs/how-to') },
      { text: 'Reference', items: pagesOf('docs/reference') },
      { text: 'Decisions', collapsed: true, items: pagesOf('docs/decisions') },
    ],
  },
});
