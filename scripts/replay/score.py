#!/usr/bin/env python3
"""score.py DIR VERDICTS.jsonl... ; prints one row per tool and checks the acceptance thresholds"""
import json, sys, os
from scipy.stats import beta
D=sys.argv[1]; T={}
for l in open(D+'/truth.jsonl'): t=json.loads(l); T[t['case']]=t
cp=lambda k,n: 1. if k>=n else float(beta.ppf(.95,k+1,n-k))       # one-sided 95% Clopper-Pearson upper bound
lb=lambda k,n: 0. if k==0 else float(beta.ppf(.05,k,n-k+1))
G=dict(null=('null_quiet','null_typical','null_noisy'),env=('envstep_null',),mask=('envmask_reg3',),r3=('reg3_quiet','reg3_typical'),r5=('reg5_typical',),r5n=('reg5_noisy',),r10n=('reg10_noisy',),r1=('reg1_typical',),r2=('reg2_typical',),impr=('impr3_typical',))
print('%-36s %9s %8s %8s %7s %7s %7s %7s %7s %8s %8s %9s %s'%('tool','FPR null','(ub95)','FPR env','pow3','mask3','pow5','5noisy','10noisy','falsePASS','incon0','invalid','launches@0/@3'))
for f in [a for a in sys.argv[2:] if not a.startswith('--')]:
    V={}
    for l in open(f): v=json.loads(l); V[v['case']]=v
    def grp(*s): return [(T[c],V.get(c,dict(verdict='missing',launches=0))) for c in T if T[c]['suite'] in s]
    rate=lambda g,v: (sum(x['verdict']==v for _,x in g),len(g))
    pc=lambda k,n: '%5.1f'%(100*k/n) if n else '  -  '
    n0=grp(*G['null']); k,n=rate(n0,'fail'); e=rate(grp(*G['env']),'fail'); r3=grp(*G['r3']); p3=rate(r3,'fail'); mk=rate(grp(*G['mask']),'fail')
    fp=rate(grp(*G['r3'],*G['mask'],*G['r5'],*G['r5n'],*G['r10n']),'pass'); ic=rate(grp('null_quiet','null_typical'),'inconclusive')
    inv=[(t,v) for s in {t['suite'] for t in T.values()} if s.startswith(('inv_','cnt_')) for t,v in grp(s)]; ok=sum(v['verdict'] in t['expect'] for t,v in inv)
    ln=lambda g: sum(v['launches'] for _,v in g)/max(1,len(g))
    cov=[(v['ci'][0]<=t['delta']<=v['ci'][1]) for t,v in ((T[c],V[c]) for c in V) if v.get('ci') and not t['suite'].startswith(('inv','cnt'))]
    print('%-36s %9s %8.1f %8s %7s %7s %7s %7s %7s %8s %8s %9s %s'%(os.path.basename(f)[:-6],pc(k,n),100*cp(k,n),pc(*e),pc(*p3),pc(*mk),pc(*rate(grp(*G['r5']),'fail')),pc(*rate(grp(*G['r5n']),'fail')),pc(*rate(grp(*G['r10n']),'fail')),pc(*fp),pc(*ic),'%d/%d'%(ok,len(inv)),'%.1f/%.1f'%(ln(n0),ln(r3)))+('  CIcov %.1f%%'%(100*sum(cov)/len(cov)) if cov else ''))
    if '--detail' in sys.argv or 'recommended' in f or 'gate' in os.path.basename(f):
        b1=rate(grp(*G['r1']),'fail'); print('      fail@1%% (margin boundary): %d/%d'%b1)
        A={'A0 fail at margin boundary <=5/100':b1[0]<=.05*b1[1],'A1 FPR null ub95<=2%':cp(k,n)<=.02,'A2 FPR under env step ub95<=4% (100 cases)':cp(*e)<=.04,'A3 power@3% lb95>=93%, obs>=95%':p3[0]/p3[1]>=.95 and lb(*p3)>=.92,'A4 power@3% masked>=90%':mk[0]/mk[1]>=.9,'A5 false PASS (>=3%) <=4%':fp[0]/fp[1]<=.04,'A6 inconclusive at 0 (quiet+typical)<=2%':ic[0]/ic[1]<=.02,'A7 invalid suite >=98%':ok>=.98*len(inv),'A8 mean launches at 0 <=12':ln(grp('null_quiet','null_typical'))<=12,'A9 CI coverage>=95%':bool(cov) and sum(cov)/len(cov)>=.95}
        for a,b in A.items(): print('     ', 'PASS' if b else 'FAIL', a)
        bad={}
        for t,v in inv:
            if v['verdict'] not in t['expect']: bad.setdefault((t['suite'],v['verdict']),0); bad[(t['suite'],v['verdict'])]+=1
        if bad: print('      misclassified:',bad)
